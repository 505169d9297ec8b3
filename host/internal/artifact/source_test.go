package artifact

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		"registry.example.org/acme/weather": "", "localhost:5000/a/b": "", "localhost/a": "", "[::1]:5000/a": "not a registry",
		"weather": "not a registry", "acme/weather": "not a registry", "registry.example.org": "not a repository", "registry.example.org/acme/../x": "not a repository",
		"Registry.example.org/a": "not a registry", "registry.example.org/A": "not a repository", "registry.example.org/a:1.0.0": "not a repository", "https://r.example/a": "not a registry",
		"registry.example.org/" + strings.Repeat("a", 300): "longer than",
	} {
		if _, err := ParseName(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"localhost:5000/a/b", "r.example/a:latest", "r.example/a:v1.0.0", "r.example/a:1.0", "r.example/a:01.0.0", "r.example/a:1.0.0+x"} {
		if r, err := ParseReference(text); err == nil {
			t.Errorf("%s: %v", text, r)
		}
	}
}

func TestConstraints(t *testing.T) {
	versions := VersionsOf([]string{"latest", "sha256-00", "1.2.0", "1.10.0", "1.9.3", "2.0.0", "2.1.0-rc.1", "v3.0.0"})
	for text, want := range map[string]string{"": "2.0.0", "~> 1.2": "1.10.0", "~> 1.9.0": "1.9.3", ">= 1.3, < 1.10": "1.9.3", "1.2.0": "1.2.0", "2.1.0-rc.1": "2.1.0-rc.1", "> 3": ""} {
		c, err := ParseConstraint(text)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := SelectVersion(versions, c, nil); v.String() != want {
			t.Errorf("%s: %s, wanted %s", text, v, want)
		}
	}
	if _, err := ParseConstraint("newest"); err == nil || !strings.Contains(err.Error(), `"~> 1.2"`) {
		t.Error(err)
	}
}

// TestPlaces checks that the mirror with the longest matching prefix is used, and that the other sources keep their own
// place.
func TestPlaces(t *testing.T) {
	var mirrors []Mirror
	for of, to := range map[string]string{"r.example/*": "harbor.corp/hub", "r.example/acme/*": "file:///srv/mirror", "r.example/acme/web": "https://files.corp/m/"} {
		m, err := ParseMirror(of, to)
		if err != nil {
			t.Fatal(err)
		}
		mirrors = append(mirrors, m)
	}
	for text, want := range map[string]string{
		"r.example/solo/x": "harbor.corp/hub/solo/x", "r.example/acme/x": "file:///srv/mirror/r.example/acme/x", "r.example/acme/web": "https://files.corp/m/r.example/acme/web",
		"other.example/x": "other.example/x", "r.example.evil/acme/x": "r.example.evil/acme/x",
	} {
		n, err := ParseName(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Locate(n, mirrors).String(); got != want {
			t.Errorf("%s: %s, wanted %s", text, got, want)
		}
	}
	for of, to := range map[string]string{"r.example": "harbor.corp/hub", "*": "harbor.corp/hub", "r.example/*": "ftp://x/y", "r.example/a": "file://host/x", "r.example/b": "https://user:x@h/y"} {
		if m, err := ParseMirror(of, to); err == nil {
			t.Error(m)
		}
	}
}
