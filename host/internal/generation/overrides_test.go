package generation

import (
	"slices"
	"testing"

	"toolhost.dev/host/internal/config"
)

// TestOverrides checks the plugins of a configuration after changes at run time, and that a change that failed is
// undone.
func TestOverrides(t *testing.T) {
	apply := func(o *Overrides) (names []string) {
		cfg := &config.Config{Plugins: []config.Plugin{{Name: "configured"}}}
		o.Apply(cfg)
		for _, p := range cfg.Plugins {
			names = append(names, p.Name)
		}
		return names
	}
	for name, tc := range map[string]struct {
		change  func(o *Overrides)
		want    []string
		removed bool // whether the plugin "configured" counts as removed
	}{
		"nothing":               {func(*Overrides) {}, []string{"configured"}, false},
		"registered":            {func(o *Overrides) { o.Register(config.Plugin{Name: "new"}) }, []string{"configured", "new"}, false},
		"registered in vain":    {func(o *Overrides) { o.Register(config.Plugin{Name: "new"})() }, []string{"configured"}, false},
		"registered twice":      {func(o *Overrides) { o.Register(config.Plugin{Name: "configured"}) }, []string{"configured"}, false},
		"unregistered":          {func(o *Overrides) { o.Unregister("configured")(true) }, nil, true},
		"unregistered in vain":  {func(o *Overrides) { o.Unregister("configured")(false) }, []string{"configured"}, false},
		"both":                  {func(o *Overrides) { o.Register(config.Plugin{Name: "new"}); o.Unregister("new")(true) }, []string{"configured"}, false},
		"both, the last failed": {func(o *Overrides) { o.Register(config.Plugin{Name: "new"}); o.Unregister("new")(false) }, []string{"configured", "new"}, false},
		"again": {func(o *Overrides) {
			o.Register(config.Plugin{Name: "new"})
			o.Unregister("new")(true)
			o.Register(config.Plugin{Name: "new"})
		}, []string{"configured", "new"}, false},
	} {
		o := new(Overrides)
		tc.change(o)
		if got := apply(o); !slices.Equal(got, tc.want) || o.Removed()["configured"] != tc.removed {
			t.Errorf("%s: %q, removed %v", name, got, o.Removed())
		}
	}
}

// TestOverridesOfAliases checks that only added aliases can be removed.
func TestOverridesOfAliases(t *testing.T) {
	o := new(Overrides)
	o.AddAlias(config.Alias{Name: "a"})
	if o.RemoveAlias("b") || len(o.Aliases()) != 1 || !o.RemoveAlias("a") || o.RemoveAlias("a") || len(o.Aliases()) != 0 {
		t.Errorf("%+v", o.Aliases())
	}
	if _, set := o.Enabled("echo"); set {
		t.Error("nobody set it")
	}
}
