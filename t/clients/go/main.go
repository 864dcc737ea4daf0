// A small client of Kubernetes as most controllers are written: client-go and controller-runtime. Driven by t/test_clients.py: one subcommand
// a subject, what happens is told as one JSON document a line, "dump" on standard input asks for the cache.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"

	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

var out sync.Mutex

func tell(v map[string]any) {
	out.Lock()
	defer out.Unlock()
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func config() *rest.Config {
	c, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	fail(err)
	c.QPS, c.Burst = 200, 400
	c.ContentType = os.Getenv("CONTENT_TYPE")
	if c.ContentType != "" {
		c.AcceptContentTypes = c.ContentType + ",application/json"
	}
	return c
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if len(os.Args) < 3 {
		fail(fmt.Errorf("usage: clients informer NS | elect NS IDENTITY | verbs NS | reconcile NS"))
	}
	switch ns := os.Args[2]; os.Args[1] {
	case "informer":
		informer(ctx, ns)
	case "elect":
		elect(ctx, ns, os.Args[3])
	case "verbs":
		verbs(ctx, ns)
	case "reconcile":
		reconcile(ctx, ns)
	}
}

// ConfigMaps of a namespace in a shared informer.
func informer(ctx context.Context, ns string) {
	set, err := kubernetes.NewForConfig(config())
	fail(err)
	factory := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(ns))
	maps := factory.Core().V1().ConfigMaps()
	one := func(what string, obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		m := obj.(*corev1.ConfigMap)
		tell(map[string]any{"event": what, "name": m.Name, "uid": m.UID, "rv": m.ResourceVersion, "n": m.Data["n"]})
	}
	_, err = maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { one("add", o) },
		UpdateFunc: func(_, o any) { one("update", o) },
		DeleteFunc: func(o any) { one("delete", o) },
	})
	fail(err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	tell(map[string]any{"synced": true})
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		all := map[string]any{}
		for _, o := range maps.Informer().GetStore().List() {
			m := o.(*corev1.ConfigMap)
			all[m.Name] = m.Data["n"]
		}
		tell(map[string]any{"dump": all})
	}
}

// Leader election by a Lease.
func elect(ctx context.Context, ns, identity string) {
	set, err := kubernetes.NewForConfig(config())
	fail(err)
	lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Name: "clients", Namespace: ns}, Client: set.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity}}
	lease, err := time.ParseDuration(os.Getenv("LEASE") + "s")
	fail(err)
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{Lock: lock, LeaseDuration: lease, RenewDeadline: lease * 2 / 3,
		RetryPeriod: 500 * time.Millisecond, ReleaseOnCancel: true, Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { tell(map[string]any{"leads": identity}) },
			OnStoppedLeading: func() { tell(map[string]any{"stopped": identity}) },
			OnNewLeader:      func(who string) { tell(map[string]any{"leader": who}) },
		}})
}

// The verbs of typed clients: pages, patches, conflicts, server-side apply, a watch, the codes of errors.
func verbs(ctx context.Context, ns string) {
	set, err := kubernetes.NewForConfig(config())
	fail(err)
	maps := set.CoreV1().ConfigMaps(ns)
	for i := 0; i < 7; i++ {
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("v%d", i), Labels: map[string]string{"app": "verbs"}}}, metav1.CreateOptions{})
		fail(err)
	}
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "v0"}}, metav1.CreateOptions{})
	tell(map[string]any{"again": apierrors.IsAlreadyExists(err)})
	_, err = maps.Get(ctx, "none", metav1.GetOptions{})
	tell(map[string]any{"none": apierrors.IsNotFound(err)})
	pages, names, opts := 0, []string{}, metav1.ListOptions{LabelSelector: "app=verbs", Limit: 3}
	for {
		l, err := maps.List(ctx, opts)
		fail(err)
		pages++
		for _, m := range l.Items {
			names = append(names, m.Name)
		}
		if opts.Continue = l.Continue; opts.Continue == "" {
			break
		}
	}
	tell(map[string]any{"pages": pages, "names": names})
	l, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "app=verbs"})
	fail(err)
	w, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "app=verbs", ResourceVersion: l.ResourceVersion, AllowWatchBookmarks: true})
	fail(err)
	stale, err := maps.Get(ctx, "v1", metav1.GetOptions{})
	fail(err)
	for _, p := range []struct {
		kind types.PatchType
		body string
	}{{types.MergePatchType, `{"data":{"a":"1"}}`}, {types.StrategicMergePatchType, `{"data":{"b":"2"}}`}, {types.JSONPatchType, `[{"op":"add","path":"/data/c","value":"3"}]`}} {
		_, err = maps.Patch(ctx, "v1", p.kind, []byte(p.body), metav1.PatchOptions{})
		fail(err)
	}
	stale.Data = map[string]string{"a": "stale"}
	_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
	tell(map[string]any{"stale": apierrors.IsConflict(err)})
	fail(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		m, err := maps.Get(ctx, "v1", metav1.GetOptions{})
		if err == nil {
			m.Data["d"] = "4"
			_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		}
		return err
	}))
	applied, err := maps.Apply(ctx, applycorev1.ConfigMap("v1", ns).WithData(map[string]string{"e": "5"}), metav1.ApplyOptions{FieldManager: "clients"})
	fail(err)
	tell(map[string]any{"data": applied.Data})
	_, err = maps.Apply(ctx, applycorev1.ConfigMap("v1", ns).WithData(map[string]string{"e": "6"}), metav1.ApplyOptions{FieldManager: "other"})
	tell(map[string]any{"owned": apierrors.IsConflict(err)})
	fail(maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=verbs"}))
	events, deleted := []string{}, 0
	for e := range w.ResultChan() {
		if m, ok := e.Object.(*corev1.ConfigMap); ok && m.Name != "" {
			events = append(events, string(e.Type)+" "+m.Name)
			if e.Type == "DELETED" {
				deleted++
			}
		}
		if deleted == 7 {
			w.Stop()
			break
		}
	}
	tell(map[string]any{"watched": events})
	version, err := set.Discovery().ServerVersion()
	fail(err)
	groups, err := set.Discovery().ServerPreferredResources()
	fail(err)
	tell(map[string]any{"major": version.Major, "groups": len(groups) > 3})
}
