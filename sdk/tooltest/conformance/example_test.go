package conformance_test

import (
	"testing"

	"toolhost.dev/sdk/tooltest/conformance"
)

// This is the whole conformance test of a plugin, in whatever language the plugin is written. It
// runs on the binary, so build that first.
func ExampleTest() {
	TestConformance := func(t *testing.T) {
		conformance.Test(t, conformance.Options{Binary: "bin/greeter"})
	}
	_ = TestConformance // the testing package calls it
}
