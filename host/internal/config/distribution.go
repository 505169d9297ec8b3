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

// publisherTable lists the attributes of a publisher block. Only commands that a person runs use the keys.
var publisherTable = newTable(
	row("sources", custom("list(string)", func(p *Publisher) *[]artifact.Pattern { return &p.Sources }, (*decoder).sources), free, "", `Sources that the publisher signs: whole names, or prefixes that end in "/*".`, needed),
	row("keys", custom("list(string)", func(p *Publisher) *[]artifact.Key { return &p.Keys }, (*decoder).keys), free, "", `Public keys in PEM, such as file("acme.pub"). Each of them is enough, so that a key can be replaced.`, needed),
	row("expires", custom("string", func(p *Publisher) *time.Time { return &p.Expires }, (*decoder).expires), free, "(never)", `Last day on which the keys sign new versions, such as "2027-12-31". Locked versions stay usable.`),
)

type mirrorHCL struct {
	Of   string    `hcl:"of,label"`
	Rest hcl.Body  `hcl:",remain"`
	At   hcl.Range `hcl:",def_range"`
}

var mirrorTable = newTable(
	row("to", plain("string", func(to *string) *string { return to }), free, "", `A registry such as "harbor.corp/hub", or a directory: "file:///srv/mirror" or "https://files.corp/mirror".`, needed),
)

var catalogTable = newTable(
	row("source", plain("string", func(name *string) *string { return name }), free, "",
		"Name of the list in a registry.", needed),
)

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
		var to string
		mirrorTable.read(d, m.Rest, &to)
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
		var text string
		catalogTable.read(d, c.Rest, &text)
		name, err := artifact.ParseName(text)
		if err != nil {
			d.fail(c.At, fmt.Sprintf("Catalog %q has no source", c.Name), "%s.", diagnose.Capital(err.Error()))
		}
		out.Catalogs = append(out.Catalogs, Catalog{c.Name, name})
	}
}

func (d *decoder) publisher(p *namedHCL) Publisher {
	out := Publisher{Name: p.Name}
	publisherTable.read(d, p.Rest, &out)
	if len(out.Sources) == 0 || len(out.Keys) == 0 {
		d.fail(p.At, fmt.Sprintf("Publisher %q needs sources and keys", p.Name), "Write sources = [\"registry.example.org/%s/*\"] and keys = [file(\"%[1]s.pub\")].", p.Name)
	}
	return out
}

func (d *decoder) sources(a *hcl.Attribute, to *Publisher) {
	for _, text := range d.optionalTexts(a.Expr) {
		pattern, err := artifact.ParsePattern(text)
		if err != nil {
			d.fail(a.Expr.Range(), "The sources of a publisher cannot be read", "%s.", diagnose.Capital(err.Error()))
		}
		to.Sources = append(to.Sources, pattern)
	}
}

func (d *decoder) keys(a *hcl.Attribute, to *Publisher) {
	for _, text := range d.optionalTexts(a.Expr) {
		key, err := artifact.ParseKey([]byte(text))
		if err != nil {
			d.fail(a.Expr.Range(), fmt.Sprintf("A key of publisher %q cannot be used", to.Name),
				"%s. Write keys = [file(\"%s.pub\")].", diagnose.Capital(err.Error()), to.Name)
		}
		to.Keys = append(to.Keys, key)
	}
}

// expires evaluates a day.
func (d *decoder) expires(a *hcl.Attribute, to *Publisher) {
	text := d.optionalText(a.Expr)
	day, err := time.Parse(time.DateOnly, text)
	if err != nil && text != "" {
		d.fail(a.Expr.Range(), fmt.Sprintf("%q is not a day", text), "Write it as \"2027-12-31\".")
	}
	if text != "" {
		to.Expires = day.AddDate(0, 0, 1)
	}
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
func (d *decoder) install(p *pluginHCL, at map[string]hcl.Range, out *Plugin) {
	if _, both := at["path"]; both {
		d.fail(p.At, fmt.Sprintf("Plugin %q has both a path and a source", p.Name), "Remove path to run the version from the registry, or remove source and version to run the file.")
	}
	if _, err := artifact.ParseName(out.Source); err != nil {
		d.fail(at["source"], fmt.Sprintf("The source of plugin %q cannot be used", p.Name), "%s.",
			diagnose.Capital(err.Error()))
		return
	}
	if _, err := artifact.ParseConstraint(out.Version); err != nil {
		d.fail(at["version"], fmt.Sprintf("The version of plugin %q cannot be used", p.Name), "%s.", diagnose.Capital(err.Error()))
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
			d.cfg.Offers = append(d.cfg.Offers, Offer{
				Tool: t, Plugin: p.Name, Text: fmt.Sprintf("%s is served by plugin %s, which cannot run here: %s.", t, p.Name, is.Missing),
			})
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
