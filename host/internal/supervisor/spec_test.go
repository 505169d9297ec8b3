package supervisor_test

import (
	"reflect"
	"testing"

	"toolhost.dev/host/internal/supervisor"
)

// TestSpec checks that a plugin is described by few values, and that what its host does for it is one interface.
func TestSpec(t *testing.T) {
	spec := reflect.TypeFor[supervisor.Spec]()
	if n := spec.NumField(); n > 12 {
		t.Errorf("Spec has %d fields, and 12 are permitted: add a method to Host, or a field to Place", n)
	}
	for _, f := range reflect.VisibleFields(spec) {
		if f.Type.Kind() == reflect.Func {
			t.Errorf("the field %s is a function", f.Name)
		}
	}
}
