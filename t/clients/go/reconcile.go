package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "clients.tandem.dev/finalizer"

var widget = schema.GroupVersionKind{Group: "clients.tandem.dev", Version: "v1", Kind: "Widget"}

type reconciler struct{ client.Client }

// A Widget gets a ConfigMap of its own with spec.size in it, and says so in its status; its end takes the ConfigMap's copy away.
func (r *reconciler) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	w := &unstructured.Unstructured{}
	w.SetGroupVersionKind(widget)
	if err := r.Get(ctx, q.NamespacedName, w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if w.GetDeletionTimestamp() != nil {
		if controllerutil.RemoveFinalizer(w, finalizer) {
			tell(map[string]any{"finalized": w.GetName()})
			return ctrl.Result{}, r.Update(ctx, w)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(w, finalizer) {
		return ctrl.Result{}, r.Update(ctx, w)
	}
	size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: w.GetName(), Namespace: w.GetNamespace()}}
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, m, func() error {
		m.Data = map[string]string{"size": fmt.Sprint(size)}
		return controllerutil.SetControllerReference(w, m, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if done != controllerutil.OperationResultNone {
		tell(map[string]any{"configmap": string(done), "name": m.Name, "size": size})
	}
	before := w.DeepCopy()
	if err := unstructured.SetNestedField(w.Object, size, "status", "size"); err != nil {
		return ctrl.Result{}, err
	}
	_ = unstructured.SetNestedField(w.Object, w.GetGeneration(), "status", "observedGeneration")
	return ctrl.Result{}, r.Status().Patch(ctx, w, client.MergeFrom(before))
}

func reconcile(ctx context.Context, ns string) {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(io.Discard, nil)))
	lease, renew := 10*time.Minute, 8*time.Minute // a manager ends when it cannot renew: the server may be away longer than the usual 10 s
	mgr, err := ctrl.NewManager(config(), ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}},
		LeaderElection: true, LeaderElectionID: "widgets", LeaderElectionNamespace: ns, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew,
	})
	fail(err)
	w := &unstructured.Unstructured{}
	w.SetGroupVersionKind(widget)
	fail(ctrl.NewControllerManagedBy(mgr).For(w).Owns(&corev1.ConfigMap{}).Complete(&reconciler{mgr.GetClient()}))
	fail(mgr.Start(ctx))
}
