package config

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/config/internal/diagnose"
)

// Distribution contains the settings for plugins from registries. Only the commands that install plugins use them.
type Distribution struct {
	Publishers []Publisher
	Mirrors    []artifact.Mirror
	Catalogs   []Catalog
}

// Publisher contains the keys of a publisher, and patterns for the sources that the keys can sign.
type Publisher struct {
	Name    string
	Sources []artifact.Pattern
	Keys    []artifact.Key
	// Expires is the time after which the host no longer accepts new versions that these keys signed. Zero means never.
	Expires time.Time
}

// Catalog is a signed list of plugins for searches.
type Catalog struct {
	Name   string
	Source artifact.Name
}

// Installation describes a program on this machine that was installed from a registry and is a plugin. See
// [Environment].
type Installation struct {
	// Path is the path of the program. It is set even if the program is missing.
	Path string
	// Missing is the reason why the program cannot run. It is empty if the program is installed.
	Missing string
	// Version is the locked version of the plugin. Tools contains the names of its tools.
	Version string
	Tools   []string
}

// PackageInstallation describes the program of a package that is installed on this machine.
type PackageInstallation struct {
	// Command is the command line of the program. The program must be able to read the directory Dir.
	Command []string
	Dir     string
	// Missing is the reason why the program cannot run.
	Missing string
}

type publisherHCL struct {
	Name    string         `hcl:"name,label"`
	Sources hcl.Expression `hcl:"sources,optional"`
	Keys    hcl.Expression `hcl:"keys,optional"`
	Expires hcl.Expression `hcl:"expires,optional"`
	At      hcl.Range      `hcl:",def_range"`
}

type mirrorHCL struct {
	Of string         `hcl:"of,label"`
	To hcl.Expression `hcl:"to,optional"`
	At hcl.Range      `hcl:",def_range"`
}

type catalogHCL struct {
	Name   string         `hcl:"name,label"`
	Source hcl.Expression `hcl:"source,optional"`
	At     hcl.Range      `hcl:",def_range"`
}

// distribution reads the blocks for plugins from registries.
func (d *decoder) distribution(f *fileHCL) {
	out := &d.cfg.Distribution
	names := make(map[string]bool)
	once := func(kind, name string, at hcl.Range) {
		if key := kind + name; names[key] {
			d.fail(at, fmt.Sprintf("The block %s %q appears twice", kind, name), "Put both into one, or remove one.")
		} else {
			names[key] = true
		}
	}
	for i := range f.Publishers {
		once("publisher", f.Publishers[i].Name, f.Publishers[i].At)
		out.Publishers = append(out.Publishers, d.publisher(&f.Publishers[i]))
	}
	for _, m := range f.Mirrors {
		once("mirror", m.Of, m.At)
		to := d.optionalText(m.To)
		mirror, err := artifact.ParseMirror(m.Of, to)
		switch {
		case to == "" && !d.diags.HasErrors():
			d.fail(m.At, fmt.Sprintf("The mirror of %q has no place", m.Of), "Say where it is: to = \"harbor.corp/hub\", or to = \"file:///srv/mirror\".")
		case err != nil:
			d.fail(m.At, "The mirror cannot be used", "%s.", diagnose.Capital(err.Error()))
		}
		out.Mirrors = append(out.Mirrors, mirror)
	}
	for _, c := range f.Catalogs {
		once("catalog", c.Name, c.At)
		name, err := artifact.ParseName(d.optionalText(c.Source))
		if err != nil {
			d.fail(c.At, fmt.Sprintf("Catalog %q has no source", c.Name), "%s.", diagnose.Capital(err.Error()))
		}
		out.Catalogs = append(out.Catalogs, Catalog{c.Name, name})
	}
}

func (d *decoder) publisher(p *publisherHCL) Publisher {
	out := Publisher{Name: p.Name}
	for _, text := range d.optionalTexts(p.Sources) {
		pattern, err := artifact.ParsePattern(text)
		if err != nil {
			d.fail(p.Sources.Range(), "The sources of a publisher cannot be read", "%s.", diagnose.Capital(err.Error()))
		}
		out.Sources = append(out.Sources, pattern)
	}
	for _, text := range d.optionalTexts(p.Keys) {
		key, err := artifact.ParseKey([]byte(text))
		if err != nil {
			d.fail(p.Keys.Range(), fmt.Sprintf("A key of publisher %q cannot be used", p.Name), "%s. Write keys = [file(\"%s.pub\")].", diagnose.Capital(err.Error()), p.Name)
		}
		out.Keys = append(out.Keys, key)
	}
	if len(out.Sources) == 0 || len(out.Keys) == 0 {
		d.fail(p.At, fmt.Sprintf("Publisher %q needs sources and keys", p.Name), "Write sources = [\"registry.example.org/%s/*\"] and keys = [file(\"%[1]s.pub\")].", p.Name)
	}
	if text := d.optionalText(p.Expires); text != "" {
		day, err := time.Parse(time.DateOnly, text)
		if err != nil {
			d.fail(p.Expires.Range(), fmt.Sprintf("%q is not a day", text), "Write it as \"2027-12-31\".")
		}
		out.Expires = day.AddDate(0, 0, 1)
	}
	return out
}

// optionalText evaluates a string. It returns "" if the attribute does not exist.
func (d *decoder) optionalText(e hcl.Expression) (s string) {
	if given(e) {
		d.add(gohcl.DecodeExpression(e, d.ctx, &s))
	}
	return s
}

// optionalTexts evaluates a list of strings.
func (d *decoder) optionalTexts(e hcl.Expression) (list []string) {
	if given(e) {
		d.add(gohcl.DecodeExpression(e, d.ctx, &list))
	}
	return list
}

// install sets the program of a plugin with a source.
func (d *decoder) install(p *pluginHCL, out *Plugin) {
	out.Source, out.Version = d.optionalText(p.Source), d.optionalText(p.Version)
	if p.Path != nil {
		d.fail(p.At, fmt.Sprintf("Plugin %q has both a path and a source", p.Name), "Remove path to run the version from the registry, or remove source and version to run the file.")
	}
	if _, err := artifact.ParseName(out.Source); err != nil {
		d.fail(p.Source.Range(), fmt.Sprintf("The source of plugin %q cannot be used", p.Name), "%s.", diagnose.Capital(err.Error()))
		return
	}
	if _, err := artifact.ParseConstraint(out.Version); err != nil {
		d.fail(p.Version.Range(), fmt.Sprintf("The version of plugin %q cannot be used", p.Name), "%s.", diagnose.Capital(err.Error()))
		return
	}
	if d.env.Installed == nil {
		out.Path, out.Missing = "/nonexistent/"+p.Name, "plugins from registries are not available here"
		return
	}
	is := d.env.Installed(d.cfg.Source, p.Name, out.Source)
	out.Path, out.Missing = is.Path, is.Missing
	if is.Missing != "" {
		for _, t := range is.Tools {
			d.cfg.Offers = append(d.cfg.Offers, Offer{Tool: t, Plugin: p.Name, Text: fmt.Sprintf("%s is served by plugin %s, which cannot run here: %s.", t, p.Name, is.Missing)})
		}
	}
}

// installedPackage replaces the attributes "package" and "args" of an "mcp" block by the command line of the installed
// package. This command line does not use npx, which would download the package at each start.
func (d *decoder) installedPackage(values map[string]any, ranges bodyRanges, out *Plugin) {
	raw, ok := values["package"].(json.RawMessage)
	if !ok {
		return
	}
	at := ranges[pathKey([]string{"package"})]
	var args []string
	if text, ok := values["args"].(json.RawMessage); ok && json.Unmarshal(text, &args) != nil {
		d.fail(ranges[pathKey([]string{"args"})], "This is not a list of arguments", "Write args = [\"…\"].")
	}
	_, command := values["command"]
	_, url := values["url"]
	if command || url {
		d.fail(at, fmt.Sprintf("Field %q has a package and another server", out.Name), "Remove command and url, or package.")
	}
	delete(values, "package")
	delete(values, "args")
	_ = json.Unmarshal(raw, &out.Package) // ignore the error: an empty text is no package
	if _, err := artifact.ParsePackage(out.Package); err != nil {
		d.fail(at, "The package cannot be used", "%s.", diagnose.Capital(err.Error()))
		return
	}
	is := PackageInstallation{Missing: "packages are not available here"}
	if d.env.InstalledPackage != nil {
		is = d.env.InstalledPackage(d.cfg.Source, out.Name, out.Package)
	}
	if is.Missing != "" {
		out.Missing = is.Missing
		is.Command = []string{"node"}
	} else {
		out.Confinement.Read = append(out.Confinement.Read, is.Dir)
	}
	b, err := json.Marshal(append(is.Command, args...))
	if err == nil {
		values["command"], ranges[pathKey([]string{"command"})] = json.RawMessage(b), at
	}
}
