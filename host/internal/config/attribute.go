package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

// given reports whether a file sets an optional attribute.
func given(e hcl.Expression) bool {
	if e == nil {
		return false
	}
	v, diags := e.Value(nil)
	return diags.HasErrors() || !v.IsNull()
}

// positive evaluates a whole number of at least 1. It returns 0 for any other value.
func (d *decoder) positive(e hcl.Expression, name, detail string) (n int) {
	if !given(e) {
		return 0
	}
	diags := gohcl.DecodeExpression(e, d.ctx, &n)
	d.add(diags)
	if n < 1 && !diags.HasErrors() {
		d.fail(e.Range(), name+" is too small", "%s", detail)
		return 0
	}
	return n
}

// choice evaluates an attribute with a fixed set of values. It reports an error for any other value.
func (d *decoder) choice(e hcl.Expression, otherwise string, among ...string) string {
	if !given(e) {
		return otherwise
	}
	var s string
	if diags := gohcl.DecodeExpression(e, d.ctx, &s); diags.HasErrors() {
		d.add(diags)
		return otherwise
	}
	for _, a := range among {
		if s == a {
			return s
		}
	}
	d.fail(e.Range(), fmt.Sprintf("%q is not allowed here", s), "Use one of %s.%s", strings.Join(among, ", "),
		suggest.DidYouMean(s, among))
	return otherwise
}

// renamed returns the attribute that a file uses: was, which has a deprecated name, or now. It adds a warning about the
// deprecated name.
func (d *decoder) renamed(was, now *hcl.Attribute, name string) *hcl.Attribute {
	if now != nil && given(now.Expr) {
		d.fail(was.Expr.Range(), fmt.Sprintf("%s and %s are the same setting", was.Name, name), "Remove %s.", was.Name)
		return now
	}
	d.cfg.warnings = append(d.cfg.warnings, &hcl.Diagnostic{
		Severity: hcl.DiagWarning, Summary: fmt.Sprintf("%s is deprecated", was.Name),
		Detail: fmt.Sprintf("Rename it to %s. The next release no longer knows %[2]s.", name, was.Name), Subject: was.Expr.Range().Ptr(),
	})
	return was
}

// duration evaluates a positive duration such as "90s" or "14d". It returns 0 if the attribute does not exist.
func (d *decoder) duration(e hcl.Expression) time.Duration {
	if !given(e) {
		return 0
	}
	var s string
	if diags := gohcl.DecodeExpression(e, d.ctx, &s); diags.HasErrors() {
		d.add(diags)
		return 0
	}
	v, err := tool.ParseDuration(s)
	if err != nil || v <= 0 {
		d.fail(e.Range(), fmt.Sprintf("%q is not a duration", s), "Write a number with a unit: \"500ms\", \"90s\", \"10m\", \"36h\", \"14d\".")
	}
	return v
}

// globs evaluates a glob or a list of globs. If a glob is invalid, ok is false.
func (d *decoder) globs(e hcl.Expression) (out []string, ok bool) {
	if !given(e) {
		return nil, true
	}
	before := len(d.diags)
	out = d.texts(e)
	for _, g := range out {
		if !doublestar.ValidatePattern(g) {
			d.fail(e.Range(), fmt.Sprintf("%q is not a glob", g), "Use *, ?, [a-z], {a,b} and ** for any number of directories.")
		}
	}
	return out, len(d.diags) == before
}

// path converts a path to an absolute path. It replaces a leading "~" by the home directory. A relative path is
// relative to the directory of the configuration file.
func (d *decoder) path(p string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		if home, err := os.UserHomeDir(); err == nil {
			p = home + p[1:]
		}
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(d.dir, p)
	}
	return filepath.Clean(p)
}
