// A DRA driver for tests: a node's fake GPUs (character devices that the node's start-up made) as a ResourceSlice, and per device a CDI entry
// that puts exactly that device file into a container.
//
//	dra-driver --node n0 --kubeconfig F [--driver gpu.example.com] [--devices 8] [--scramble]
//
// Device gpu-<i> has the attributes index (its Slurm index) and model, and becomes /dev/tandem-gpu<i> in a container. With --scramble names say nothing
// of the index: gpu-a is the last one. The log says DOUBLE when a device is prepared for a claim while another one, that is no admin's, still has it.
// (A pod that has ended by itself may be seen so for a moment: its containers are gone before its claim is let go.)
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

var (
	node       = flag.String("node", "", "name of the node")
	kubeconfig = flag.String("kubeconfig", "", "path of the kubeconfig; the node's own rights are enough")
	driver     = flag.String("driver", "gpu.example.com", "name of the driver")
	devices    = flag.Int("devices", 8, "how many devices the node has")
	scramble   = flag.Bool("scramble", false, "name devices so that their order is not that of their indexes")
	host       = flag.String("host", "/run/tandem-fake/gpu", "device files on the node, before the index")
	inside     = flag.String("inside", "/dev/tandem-gpu", "device files in a container, before the index")
	cdi        = flag.String("cdi", "/run/cdi", "directory of CDI files")
	kubelet    = flag.String("kubelet", "/var/lib/kubelet", "directory of the kubelet")
)

func name(index int) string {
	if *scramble {
		return fmt.Sprintf("gpu-%c", 'a'+*devices-1-index)
	}
	return fmt.Sprintf("gpu-%d", index)
}

func resources() resourceslice.DriverResources {
	var list []resourceapi.Device
	for k := range *devices {
		i := k
		if *scramble { // nor is the order in the slice
			i = (k*3 + 1) % *devices
		}
		index, model := int64(i), "fake"
		list = append(list, resourceapi.Device{Name: name(i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"index": {IntValue: &index}, "model": {StringValue: &model}}})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{*node: {Slices: []resourceslice.Slice{{Devices: list}}}}}
}

// One file for all devices, written once: preparing a claim then only names entries of it.
func writeCDI() error {
	type edit = map[string]any
	var list []edit
	for i := range *devices {
		list = append(list, edit{"name": name(i), "containerEdits": edit{"deviceNodes": []edit{{
			"path": fmt.Sprint(*inside, i), "hostPath": fmt.Sprint(*host, i), "type": "c", "permissions": "rwm"}}}})
	}
	text, err := json.Marshal(edit{"cdiVersion": "0.5.0", "kind": *driver + "/gpu", "devices": list})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*cdi, 0o755); err != nil {
		return err
	}
	file := filepath.Join(*cdi, *driver+".json")
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

type plugin struct {
	sync.Mutex
	holder map[string]types.UID // of a device: the claim that is no admin's
}

func (p *plugin) prepare(c *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	if c.Status.Allocation == nil {
		return kubeletplugin.PrepareResult{Err: fmt.Errorf("claim %s/%s has no allocation", c.Namespace, c.Name)}
	}
	known := map[string]bool{}
	for i := range *devices {
		known[name(i)] = true
	}
	var got []kubeletplugin.Device
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver != *driver {
			continue
		}
		if r.Pool != *node || !known[r.Device] {
			return kubeletplugin.PrepareResult{Err: fmt.Errorf("node %s has no device %s/%s", *node, r.Pool, r.Device)}
		}
		if r.AdminAccess == nil || !*r.AdminAccess {
			if h, taken := p.holder[r.Device]; taken && h != c.UID {
				log.Printf("DOUBLE: %s for claim %s/%s, held by %s", r.Device, c.Namespace, c.Name, h)
			}
		}
		got = append(got, kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device,
			CDIDeviceIDs: []string{*driver + "/gpu=" + r.Device}})
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver == *driver && (r.AdminAccess == nil || !*r.AdminAccess) {
			p.holder[r.Device] = c.UID
		}
	}
	log.Printf("prepared %s/%s %s: %d devices", c.Namespace, c.Name, c.UID, len(got))
	return kubeletplugin.PrepareResult{Devices: got}
}

func (p *plugin) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	p.Lock()
	defer p.Unlock()
	all := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		all[c.UID] = p.prepare(c)
	}
	return all, nil
}

func (p *plugin) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	p.Lock()
	defer p.Unlock()
	all := map[types.UID]error{}
	for _, c := range claims {
		for d, h := range p.holder {
			if h == c.UID {
				delete(p.holder, d)
			}
		}
		log.Printf("released %s/%s %s", c.Namespace, c.Name, c.UID)
		all[c.UID] = nil
	}
	return all, nil
}

func (p *plugin) HandleError(_ context.Context, err error, msg string) {
	log.Printf("%s: %v", msg, err)
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := writeCDI(); err != nil {
		return err
	}
	data := filepath.Join(*kubelet, "plugins", *driver)
	registry := filepath.Join(*kubelet, "plugins_registry")
	for _, d := range []string{data, registry} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(ctx, &plugin{holder: map[string]types.UID{}}, kubeletplugin.DriverName(*driver), kubeletplugin.NodeName(*node),
		kubeletplugin.KubeClient(client), kubeletplugin.PluginDataDirectoryPath(data), kubeletplugin.RegistrarDirectoryPath(registry))
	if err != nil {
		return err
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, resources()); err != nil {
		return err
	}
	log.Printf("serves %d devices of %s", *devices, *node)
	<-ctx.Done()
	return nil
}

func main() {
	flag.Parse()
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if *node == "" || *kubeconfig == "" || *devices < 1 || *devices > 26 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
