package sdk

import (
	"maps"
	"strings"
	"testing"
)

func TestResourceTemplates(t *testing.T) {
	for _, tc := range []struct{ template, uri, want string }{
		{"a://list", "a://list", ""},
		{"a://list", "a://list2", "no"},
		{"a://{x}/y", "a://b%20c/y", "x=b c"},
		{"a://{x}/y", "a://b/c/y", "no"},
		{"a://{x}/y", "a:///y", "no"},
		{"a://{x}/y", "a://%zz/y", "no"},
		{"a://{x}.{y}?q=1", "a://1.2?q=1", "x=1 y=2"},
		{"a://(.*)", "a://anything", "no"},
		{"a://{+x}", "a://b", "error"},
		{"a://{x", "a://b", "error"},
		{"a://{}", "a://b", "error"},
	} {
		r := Resource{URI: tc.template}
		got, err := r.variables(tc.uri)
		text := "no"
		switch {
		case err != nil:
			text = "error"
		case got != nil:
			var all []string
			for _, k := range []string{"x", "y"} {
				if v, ok := got[k]; ok {
					all = append(all, k+"="+v)
				}
			}
			text = strings.Join(all, " ")
		}
		if text != tc.want {
			t.Errorf("%s, %s: %q %v, want %q", tc.template, tc.uri, text, maps.Clone(got), tc.want)
		}
	}
}

// TestInvalidPrompts checks that the error of New describes each mistake in prompts and resources.
func TestInvalidPrompts(t *testing.T) {
	p := Plugin{
		Name: "p", Version: "1.0.0", Prompts: []Prompt{{Name: "a"}, {Name: "a"}},
		Resources: []Resource{{URI: "no scheme", Name: "x"}, {URI: "a://{+x}", Name: "y"}},
	}
	_, err := New(p)
	for _, want := range []string{`prompt "a": the fields Name and Get are required`, `prompt "a": the name is used twice`, `resource "no scheme": the fields`, `template "a://{+x}": the variable {+x} is not supported`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	p.Relay = new(Relay)
	if _, err := New(p); err == nil || !strings.Contains(err.Error(), "both Relay and Prompts or Resources are set") {
		t.Error(err)
	}
}
