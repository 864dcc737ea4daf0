// A device plugin for tests: a node's fake GPUs (character devices that the node's start-up made) as an extended resource of its kubelet.
//
//	device-plugin [--resource example.com/gpu] [--devices 8] [--sick FILE]
//
// Device gpu-<i> becomes /dev/tandem-gpu<i> in a container, which has the names of its devices in $FAKE_GPUS. The plugin prefers the devices with the
// highest indexes, so that what a kubelet chooses is hardly ever what Slurm granted. FILE holds indexes of devices that are sick, separated by blanks; it
// is looked at twice a second. A kubelet that is started again removes the plugins' sockets: the plugin registers again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

var (
	resource = flag.String("resource", "example.com/gpu", "name of the extended resource")
	devices  = flag.Int("devices", 8, "how many devices the node has")
	sick     = flag.String("sick", "", "file with the indexes of sick devices")
	host     = flag.String("host", "/run/tandem-fake/gpu", "device files on the node, before the index")
	inside   = flag.String("inside", "/dev/tandem-gpu", "device files in a container, before the index")
	dir      = flag.String("dir", api.DevicePluginPath, "the kubelet's directory of plugins")
)

const look = 500 * time.Millisecond

func name(index int) string { return fmt.Sprint("gpu-", index) }

func index(name string) (int, error) {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "gpu-"))
	if err != nil || i < 0 || i >= *devices {
		return 0, fmt.Errorf("there is no device %q", name)
	}
	return i, nil
}

func sickNow() (map[int]bool, error) {
	got := map[int]bool{}
	text, err := os.ReadFile(*sick)
	if *sick == "" || errors.Is(err, fs.ErrNotExist) {
		return got, nil
	}
	for _, word := range strings.Fields(string(text)) {
		i, bad := strconv.Atoi(word)
		if bad != nil {
			return nil, fmt.Errorf("%s: %q is no index", *sick, word)
		}
		got[i] = true
	}
	return got, err
}

type plugin struct {
	api.UnimplementedDevicePluginServer
	gone context.Context // over when this server is
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, out api.DevicePlugin_ListAndWatchServer) error {
	said := ""
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		ill, err := sickNow()
		if err != nil {
			return err
		}
		if now := fmt.Sprint(ill); now != said { // maps are printed in order
			said = now
			list := &api.ListAndWatchResponse{}
			for i := range *devices {
				health := api.Healthy
				if ill[i] {
					health = api.Unhealthy
				}
				list.Devices = append(list.Devices, &api.Device{ID: name(i), Health: health})
			}
			if err := out.Send(list); err != nil {
				return err
			}
			log.Printf("told the kubelet: %d devices, sick: %s", *devices, said)
		}
		select {
		case <-p.gone.Done():
			return nil
		case <-out.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

// The highest first.
func (p *plugin) GetPreferredAllocation(_ context.Context, r *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	answer := &api.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		free := slices.Clone(c.AvailableDeviceIDs)
		slices.SortFunc(free, func(a, b string) int {
			i, _ := index(a)
			k, _ := index(b)
			return k - i
		})
		chosen := slices.Clone(c.MustIncludeDeviceIDs)
		for _, d := range free {
			if len(chosen) < int(c.AllocationSize) && !slices.Contains(chosen, d) {
				chosen = append(chosen, d)
			}
		}
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return answer, nil
}

func (p *plugin) Allocate(_ context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	ill, err := sickNow()
	if err != nil {
		return nil, err
	}
	answer := &api.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		one := &api.ContainerAllocateResponse{Envs: map[string]string{"FAKE_GPUS": strings.Join(c.DevicesIds, ",")}}
		for _, d := range c.DevicesIds {
			i, err := index(d)
			if err != nil {
				return nil, err
			}
			if ill[i] {
				return nil, fmt.Errorf("device %s is sick", d)
			}
			one.Devices = append(one.Devices, &api.DeviceSpec{HostPath: fmt.Sprint(*host, i), ContainerPath: fmt.Sprint(*inside, i), Permissions: "rwm"})
		}
		log.Printf("allocated %s", strings.Join(c.DevicesIds, " "))
		answer.ContainerResponses = append(answer.ContainerResponses, one)
	}
	return answer, nil
}

func register(ctx context.Context, endpoint string) error {
	conn, err := grpc.NewClient("unix:"+filepath.Join(*dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: *resource,
		Options: &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}}, grpc.WaitForReady(true))
	return err
}

// One life of the server: until ctx is over, or its socket is gone because the kubelet was started again.
func serve(ctx context.Context) error {
	endpoint := strings.ReplaceAll(*resource, "/", "_") + ".sock"
	socket := filepath.Join(*dir, endpoint)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	life, over := context.WithCancel(ctx)
	defer over()
	s := grpc.NewServer()
	api.RegisterDevicePluginServer(s, &plugin{gone: life})
	go s.Serve(l)
	defer s.Stop()
	if err := register(ctx, endpoint); err != nil {
		return err
	}
	log.Printf("registered: %d devices of %s", *devices, *resource)
	for tick := time.NewTicker(look); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
			if _, err := os.Stat(socket); err != nil {
				log.Printf("the kubelet was started again")
				tick.Stop()
				return nil
			}
		}
	}
}

func main() {
	flag.Parse()
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if *devices < 1 || *devices > 64 || strings.Count(*resource, "/") != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	for ctx.Err() == nil {
		if err := serve(ctx); err != nil && ctx.Err() == nil {
			log.Printf("%v", err) // the kubelet is not there (any more): again in a moment
			select {
			case <-ctx.Done():
			case <-time.After(look):
			}
		}
	}
}
