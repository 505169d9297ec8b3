package confinement

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/confine"
)

// TestGaps checks that a weaker kernel or backend has more gaps, and that each gap comes with a remedy.
func TestGaps(t *testing.T) {
	bash := sandbox.Profile{WriteRoots: true, StartProcesses: true}
	last := 0
	for _, tc := range []struct {
		k sandbox.Kernel
		b sandbox.Backend
	}{{sandbox.Kernel{ABI: 7, Namespaces: true}, sandbox.Namespaces{}}, {sandbox.Kernel{ABI: 7}, sandbox.Landlock{}}, {sandbox.Kernel{ABI: 4}, sandbox.Landlock{}}, {sandbox.Kernel{ABI: 1}, sandbox.Landlock{}}} {
		gaps := Gaps(&bash, &tc.k, tc.b, nil)
		if len(gaps) <= last {
			t.Errorf("%+v has %d gaps, no more than what is better", tc, len(gaps))
		}
		last = len(gaps)
		for _, g := range gaps {
			if g.What == "" || g.How == "" {
				t.Errorf("%+v", g)
			}
		}
	}
	none := Gaps(&bash, &sandbox.Kernel{}, sandbox.None{}, errors.New("too old"))
	if len(none) != 1 || none[0].How != "too old" || Enforced(&bash, &sandbox.Kernel{}, sandbox.None{}) != nil {
		t.Errorf("%+v", none)
	}
	all := sandbox.Profile{Network: true, Limits: confine.Limits{Memory: 5}}
	if text := strings.Join(Enforced(&all, &sandbox.Kernel{ABI: 7}, sandbox.Landlock{}), "\n"); !strings.Contains(text, "network: allowed") || !strings.Contains(text, "memory 5") {
		t.Error(text)
	}
}

// TestDeclared checks the profiles of the bundled plugins, and of a plugin that declares nothing.
func TestDeclared(t *testing.T) {
	shell := sandbox.Profile{WriteRoots: true, StartProcesses: true}
	for plugin, want := range map[string]sandbox.Profile{"read": {}, "grep": {}, "ask": {NoRoots: true}, "edit": {WriteRoots: true}, "bash": shell} {
		m, err := manifest.Read("../../../plugins/" + plugin)
		if err != nil {
			t.Fatal(err)
		}
		if got := declared(m.Bundled.Profile); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", plugin, got, want)
		}
	}
	if got := declared(manifest.Profile{}); !got.WriteRoots || got.NoRoots || got.StartProcesses {
		t.Errorf("no declaration: %+v", got)
	}
}

// TestAdvice checks that an error of the start of a sandbox names what an operator can do.
func TestAdvice(t *testing.T) {
	other := errors.New("another")
	for want, err := range map[string]error{
		"the sandbox cannot be set up: x. Run toolhost doctor for details":                                                                                    &sandbox.SetupError{Cause: errors.New("x")},
		`the sandbox cannot be set up; the step y failed: x. Run toolhost doctor for details. To turn the sandbox off, configure sandbox { enforce = "off" }`: &sandbox.SetupError{Step: "y", Cause: errors.New("x")},
		errGated.Error(): sandbox.ErrGated, "another": other,
	} {
		if got := advise(err); got.Error() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	if advise(nil) != nil {
		t.Error("advice without an error")
	}
}
