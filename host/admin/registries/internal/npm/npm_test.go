package npm

import (
	"strings"
	"testing"
)

// TestReadLock checks which packages are refused.
func TestReadLock(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"good":       {`{"packages":{"":{"version":"0.0.0"},"node_modules/a":{"version":"1.0.0","integrity":"sha512-x"}}}`, ""},
		"no hash":    {`{"packages":{"node_modules/a":{"version":"1.0.0"}}}`, "has no hash"},
		"script":     {`{"packages":{"node_modules/a":{"integrity":"sha512-x","hasInstallScript":true}}}`, "runs a script"},
		"link":       {`{"packages":{"node_modules/a":{"integrity":"sha512-x","link":true}}}`, "is a link"},
		"directory":  {`{"packages":{"../a":{"integrity":"sha512-x"}}}`, "is a link"},
		"web server": {`{"packages":{"node_modules/a":{"integrity":"sha512-x","resolved":"https://evil.example/a.tgz"}}}`, "not a registry"},
		"file":       {`{"packages":{"node_modules/a":{"integrity":"sha512-x","resolved":"file:../../a.tgz"}}}`, "not a registry"},
		"git":        {`{"packages":{"node_modules/a":{"integrity":"sha512-x","resolved":"git+ssh://git@evil.example/a.git#1"}}}`, "not a registry"},
		"no JSON":    {`{"packages":`, "cannot be read"},
		"large":      {strings.Repeat(" ", maxLock+1), "larger than 8 MiB"},
	} {
		_, err := ReadLock([]byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, wanted %q", name, err, c.want)
		}
	}
}
