// Says how kstatus, by which GitOps tools know whether an object is as its spec says, reads objects: a List in JSON on standard
// input, a line for each on standard output.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, item := range list.Items {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(item); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		r, err := status.Compute(u)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("%s/%s %s: %s\n", u.GetKind(), u.GetName(), r.Status, r.Message)
	}
}
