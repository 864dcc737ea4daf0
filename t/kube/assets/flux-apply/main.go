// What Flux's kustomize-controller does with the objects of one Kustomization, by the same engine (fluxcd/pkg/ssa), as one command:
//
//	flux-apply KUBECONFIG SECONDS NEW [OLD]
//
// It applies the objects of the file NEW in stages, drops those of OLD that NEW has no more, and waits so long until all are current by kstatus. Prints a
// line for each object that it looked at: what it did, and the object; then "ready", or why not. The end of the file: "-" stands for no objects.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func read(path string) []*unstructured.Unstructured {
	if path == "-" {
		return nil
	}
	f, err := os.Open(path)
	check(err)
	defer f.Close()
	objects, err := utils.ReadObjects(f)
	check(err)
	return objects
}

func say(set *ssa.ChangeSet) {
	for _, e := range set.Entries {
		fmt.Println(e.Action, e.Subject)
	}
}

func main() {
	log.SetLogger(logr.Discard())
	seconds, err := strconv.Atoi(os.Args[2])
	check(err)
	ctx, stop := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer stop()
	conf, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err)
	http, err := rest.HTTPClientFor(conf)
	check(err)
	mapper, err := apiutil.NewDynamicRESTMapper(conf, http)
	check(err)
	c, err := client.New(conf, client.Options{Mapper: mapper})
	check(err)
	m := ssa.NewResourceManager(c, polling.NewStatusPoller(c, mapper, polling.Options{}), ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	objects := read(os.Args[3])
	check(normalize.UnstructuredList(objects))
	m.SetOwnerLabels(objects, "site", "flux-system")
	done, err := m.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions())
	check(err)
	say(done)
	if len(os.Args) > 4 {
		var stale []*unstructured.Unstructured
		for _, old := range read(os.Args[4]) {
			kept := false
			for _, o := range objects {
				kept = kept || utils.FmtUnstructured(o) == utils.FmtUnstructured(old)
			}
			if !kept {
				stale = append(stale, old)
			}
		}
		gone := ssa.DefaultDeleteOptions()
		gone.Inclusions = m.GetOwnerLabels("site", "flux-system")
		done, err := m.DeleteAll(ctx, stale, gone)
		check(err)
		say(done)
		check(m.WaitForTermination(stale, ssa.WaitOptions{Interval: time.Second, Timeout: time.Duration(seconds) * time.Second}))
	}
	if err := m.Wait(objects, ssa.WaitOptions{Interval: time.Second, Timeout: time.Duration(seconds) * time.Second, FailFast: true}); err != nil {
		fmt.Println("not ready:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
	fmt.Println("ready")
}
