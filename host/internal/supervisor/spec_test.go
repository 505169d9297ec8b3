package supervisor_test

import (
	"reflect"
	"testing"

	"toolhost.dev/host/internal/supervisor"
)

// TestSpec checks that a plugin is described by few values, and that what its host does for it is one interface, as is
// what the host does for all plugins.
func TestSpec(t *testing.T) {
	spec := reflect.TypeFor[supervisor.Spec]()
	if n := spec.NumField(); n > 12 {
		t.Errorf("Spec has %d fields, and 12 are permitted: add a method to Host, or a field to Place", n)
	}
	for _, f := range append(reflect.VisibleFields(spec), reflect.VisibleFields(reflect.TypeFor[supervisor.Options]())...) {
		if f.Type.Kind() == reflect.Func {
			t.Errorf("the field %s is a function", f.Name)
		}
	}
}
