package privilege

import (
	"reflect"
	"testing"
	"time"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
)

// TestIntersectTakesEveryAbility checks that a plugin has no ability and no higher limit after [Intersect] than in the
// other configuration. It grants every field of the block "sandbox" of a plugin, so it fails for a new ability that
// Intersect does not know.
func TestIntersectTakesEveryAbility(t *testing.T) {
	p := &config.Plugin{Name: "p", Path: "/nowhere/p"}
	grant(reflect.ValueOf(&p.Confinement).Elem())
	p.Confinement.Enforce, p.Confinement.NoRoots = "", new(false)
	granted := confinement.Profile(p)
	if !granted.Network || !granted.WriteGit || !granted.WriteRoots || granted.NoRoots || len(granted.Read) == 0 {
		t.Fatalf("the abilities are not granted: %+v", granted)
	}
	no, yes := false, true
	less := config.Plugin{Name: "p", Path: "/nowhere/p", Confinement: config.Confinement{WriteRoots: &no, NoRoots: &yes, Exec: &no, Network: &no}}
	lowest(reflect.ValueOf(&less.Confinement.Limits).Elem())
	was := confinement.Profile(&less)
	both, _ := Intersect(&config.Config{Plugins: []config.Plugin{*p}}, &config.Config{Plugins: []config.Plugin{less}})
	now := reflect.ValueOf(confinement.Profile(&both.Plugins[0]))
	for i := range now.NumField() {
		name, v := now.Type().Field(i).Name, now.Field(i)
		switch {
		case name == "DeniedPaths" || name == "Resident": // not in the block of a plugin
		case name == "NoRoots":
			if !v.Bool() {
				t.Error("the roots are accessible again")
			}
		case name == "Limits" || name == "Total":
			for j := range v.NumField() {
				if limit := v.Field(j); !limit.Equal(reflect.ValueOf(was).Field(i).Field(j)) {
					t.Errorf("the limit %s.%s is %v", name, v.Type().Field(j).Name, limit)
				}
			}
		case name == "Temporary":
			if v.Uint() != 1 {
				t.Errorf("the limit %s is %d", name, v.Uint())
			}
		case v.Kind() == reflect.Slice && v.Len() == 0:
		case !v.IsZero():
			t.Errorf("%s is still %v", name, v)
		}
	}
}

// TestStoredProfile checks that a plugin keeps what its manifest grants if what is stored is applied to the same
// configuration.
func TestStoredProfile(t *testing.T) {
	read, _ := reader(t)
	cfg := read(`plugin "bash" {}`)
	if KeepStored(cfg, Stored(cfg)); !confinement.Profile(cfg.Plugin("bash")).StartProcesses {
		t.Error("bash cannot start programs any more")
	}
}

// grant sets all fields of a struct: true, a path, or no limit.
func grant(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Pointer:
			f.Set(reflect.ValueOf(new(true)))
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"/x"}))
		case reflect.Struct:
			grant(f)
		case reflect.Uint64:
			f.SetUint(config.Unlimited)
		default: // a text, or a limit without a value for "no limit": it stays unset
		}
	}
}

// lowest sets all limits of a struct to 1.
func lowest(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(1)
		case reflect.Int64:
			f.SetInt(int64(time.Second))
		case reflect.Float64:
			f.SetFloat(1)
		case reflect.Struct:
			lowest(f)
		}
	}
}
