package reload

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/supervisor"
)

// TestReplacedGenerationsAreFreed checks that nothing keeps what a reload replaced: the generation, its tools and its
// dispatcher, and the replaced plugin. The replaced plugins depend on each other, and one of them cannot be replaced.
func TestReplacedGenerationsAreFreed(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	f.Write("q", "version=1.0.0")
	f.Configure(f.Plugin("p", `depends_on = ["q"]`) + f.Plugin("q", `field = "f"`))
	if r := f.reload(Options{}); r.Refused() {
		t.Fatalf("%+v", r)
	}
	const swaps = 12
	var generations []weak.Pointer[generation.Generation]
	var registries []weak.Pointer[registry.Registry]
	var dispatchers []weak.Pointer[dispatch.Dispatcher]
	var plugins []weak.Pointer[generation.Plugin]
	var processes []weak.Pointer[supervisor.Plugin]
	for i := range swaps {
		f.version()
		g, name := f.Current(), []string{"p", "q"}[i%2]
		generations, registries, dispatchers = append(generations, weak.Make(g)), append(registries, weak.Make(g.Registry)), append(dispatchers, weak.Make(g.Dispatch))
		plugins, processes = append(plugins, weak.Make(g.Plugin(name))), append(processes, weak.Make(g.Plugin(name).Process))
		if i%3 == 2 {
			f.Write(name, "version=9.0.0 unhealthy=yes")
			one(t, f.reload(Options{}), Refused)
		}
		f.Write(name, fmt.Sprintf("version=2.0.%d", i))
		one(t, f.reload(Options{}), Swapped)
	}
	f.version()
	runtime.GC()
	runtime.GC()
	for what, n := range map[string]int{
		"generations": alive(generations), "registries": alive(registries), "dispatchers": alive(dispatchers), "plugins": alive(plugins), "processes": alive(processes),
	} {
		if n > 2 { // a goroutine that waits for its next call can keep its last one
			t.Errorf("%d %s of %d are kept", n, what, swaps)
		}
	}
}

// alive returns the number of values that are not freed.
func alive[T any](all []weak.Pointer[T]) (n int) {
	for _, p := range all {
		if p.Value() != nil {
			n++
		}
	}
	return n
}
