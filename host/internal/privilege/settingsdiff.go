package privilege

import (
	"bytes"
	"slices"
	"strconv"

	"toolhost.dev/host/internal/config"
)

// SettingChange describes a setting that differs between two configurations.
type SettingChange struct {
	// Path identifies the setting, such as host.timeout or plugin "read".env.
	Path string `json:"path"`
	// From and To are the old and the new value as HCL. An empty value means that the setting does not exist.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// At is the position of the new value, as "file:line".
	At string `json:"at,omitempty"`
}

// DiffSettings returns the differences between an old and a new tree, in the order of the new tree. Removed settings
// come last.
func DiffSettings(old, now *SettingTree) []SettingChange {
	a, b := flatten(old), flatten(now)
	out := []SettingChange{}
	find := func(in []setting, path string) *config.TreeValue {
		i := slices.IndexFunc(in, func(s setting) bool { return s.path == path })
		if i < 0 {
			return nil
		}
		return in[i].value
	}
	for _, s := range b {
		switch was := find(a, s.path); {
		case was == nil && s.value != nil && s.value.From != config.Default:
			out = append(out, SettingChange{Path: s.path, To: s.value.HCL(), At: s.value.From})
		case was != nil && s.value != nil && !was.Same(s.value):
			c := SettingChange{Path: s.path, From: was.HCL(), To: s.value.HCL(), At: s.value.From}
			if bytes.Equal(was.Value, s.value.Value) {
				c.From, c.To = "(sensitive)", "(sensitive, another)"
			}
			out = append(out, c)
		}
	}
	for _, s := range a {
		if find(b, s.path) == nil && s.value.From != config.Default {
			out = append(out, SettingChange{Path: s.path, From: s.value.HCL()})
		}
	}
	return out
}

// setting combines a value with its path.
type setting struct {
	path  string
	value *config.TreeValue
}

func flatten(t *SettingTree) (out []setting) {
	var walk func(prefix string, blocks []*config.TreeNode)
	walk = func(prefix string, blocks []*config.TreeNode) {
		seen := make(map[string]int)
		for _, n := range blocks {
			path := prefix + n.Type
			for _, l := range n.Labels {
				path += " " + strconv.Quote(l)
			}
			if seen[path]++; seen[path] > 1 {
				path += "[" + strconv.Itoa(seen[path]) + "]"
			}
			if n.From != config.Default && len(n.Labels) > 0 {
				here, _ := config.NewTreeValue("", map[string]any{}, n.From)
				out = append(out, setting{path, &here})
			}
			for i := range n.Values {
				out = append(out, setting{path + "." + n.Values[i].Name, &n.Values[i]})
			}
			walk(path+".", n.Blocks)
		}
	}
	for i := range t.Values {
		out = append(out, setting{t.Values[i].Name, &t.Values[i]})
	}
	walk("", t.Blocks)
	return out
}
