package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/sdk/tool"
)

// fieldHCL is a field namespace with tools from an MCP server or from functions.
type fieldHCL struct {
	Name      string    `hcl:"name,label"`
	Sandbox   *bodyHCL  `hcl:"sandbox,block"`
	MCP       []bodyHCL `hcl:"mcp,block"`
	Functions []bodyHCL `hcl:"function,block"`
	Rest      hcl.Body  `hcl:",remain"`
	At        hcl.Range `hcl:",def_range"`
}

// fieldLimits contains the timeouts of a field.
type fieldLimits struct{ call, start time.Duration }

var fieldTable = newTable(
	row("timeout", duration(func(l *fieldLimits) *time.Duration { return &l.call }), free, `"2m"`, "Maximum time of a call without a sign of life."),
	row("start_timeout", duration(func(l *fieldLimits) *time.Duration { return &l.start }), free, `"30s"`, "Maximum time until the server has listed its tools."),
)

// These bundled plugins serve the tools of MCP servers and of functions.
const (
	mountPlugin    = "mcp"
	functionPlugin = "function"
)

// mountSpare is added to the start timeout of the plugin that mounts a server. The plugin needs this time to report
// that its server did not start.
const mountSpare = 10 * time.Second

// field converts a "field" block into a plugin. The kind of the field determines the bundled plugin. The content of the
// block becomes the configuration of the plugin.
func (d *decoder) field(f *fieldHCL) {
	out := Plugin{Name: f.Name, Field: f.Name, at: f.At}
	limits := fieldTable.defaults()
	fieldTable.read(d, f.Rest, &limits)
	readBlock(d, f.Sandbox, confinementTable, &out.Confinement)
	if !tool.ValidName(f.Name) {
		d.fail(f.At, fmt.Sprintf("%q cannot name a field namespace", f.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
		return
	}
	server := len(f.MCP) > 0
	if server == (len(f.Functions) > 0) || len(f.MCP) > 1 {
		d.fail(f.At, fmt.Sprintf("Field %q needs one mcp block, or function blocks", f.Name),
			"Say which server it is, mcp { command = [\"…\"] } or mcp { url = \"…\" }, or define functions:\nfunction {\n  file    = \"tools.json\"\n  command = [\"…\"]\n}")
		return
	}
	out.Mounted, out.Args, out.StartTimeout = server, []string{"--call-timeout", limits.call.String()},
		limits.start+mountSpare
	kind := functionPlugin
	if server {
		kind = mountPlugin
		out.Args = append(out.Args, "--start-timeout", limits.start.String())
	}
	out.Path = filepath.Join(d.env.BundledDir, kind)
	if out.Missing = missing(out.Path); d.env.BundledDir == "" {
		out.Missing = "there are no bundled plugins, one of which serves fields"
	}
	if err := d.describeField(&out); err != nil {
		out.Missing = err.Error()
	}
	n := len(d.diags)
	if server {
		d.mount(&f.MCP[0], &out)
	} else {
		d.functions(f.Functions, &out)
	}
	out.Refused = d.external(n)
	d.cfg.Plugins = append(d.cfg.Plugins, out)
}

// describeField applies the manifest of the bundled plugin that serves a field. It reads each manifest only once,
// because a configuration can have many fields.
func (d *decoder) describeField(out *Plugin) error {
	first, known := d.described[out.Path]
	if !known {
		first.err = out.describe(d.manifests)
		first.name, first.profile = out.Bundled, out.Profile
		if d.described == nil {
			d.described = make(map[string]described)
		}
		d.described[out.Path] = first
	}
	out.Bundled, out.Profile = first.name, first.profile
	return first.err
}

// described is the result of reading the manifest of a bundled plugin.
type described struct {
	name    string
	profile manifest.Profile
	err     error
}

// mount reads an "mcp" block. The plugin validates the block, so mount changes only paths that are relative to the
// directory of the configuration file.
func (d *decoder) mount(c *bodyHCL, out *Plugin) {
	ranges := bodyRanges{"": c.At}
	values := d.body(c.Body, nil, ranges)
	d.installedPackage(values, ranges, out)
	d.oauth(values, ranges, out)
	local := d.resolve(values, nil, ranges, out)
	if !local {
		out.Args = append(out.Args, "--remote")
	}
	d.passOn(values, ranges, out, local, !local)
}

// functions reads "function" blocks in the same way as mount reads "mcp" blocks.
func (d *decoder) functions(blocks []bodyHCL, out *Plugin) {
	ranges := bodyRanges{"": blocks[0].At}
	var list []any
	exec, network := false, false
	for i := range blocks {
		at := []string{"function", strconv.Itoa(i)}
		ranges[pathKey(at)] = blocks[i].At
		values := d.body(blocks[i].Body, at, ranges)
		d.definitions(values, at, ranges)
		local := d.resolve(values, at, ranges, out)
		exec, network = exec || local, network || !local
		list = append(list, values)
	}
	if exec {
		out.Args = append(out.Args, "--programs")
	}
	if network {
		out.Args = append(out.Args, "--endpoints")
	}
	d.passOn(map[string]any{"function": list}, ranges, out, exec, network)
}

// maxDefinitions is the maximum size of a file of function definitions, in bytes.
const maxDefinitions = 4 << 20

// definitions reads the file with the definitions of a "function" block. The host must read this file, because the
// plugin is not always allowed to access it.
func (d *decoder) definitions(values map[string]any, at []string, ranges bodyRanges) {
	raw, given := values["file"]
	if !given {
		return
	}
	delete(values, "file")
	where := ranges[pathKey(slices.Concat(at, []string{"file"}))]
	var name string
	if b, _ := raw.(json.RawMessage); json.Unmarshal(b, &name) != nil || name == "" {
		d.fail(where, "This is not the name of a file", "Write file = \"tools.json\".")
		return
	}
	if _, both := values["definitions"]; both {
		d.fail(where, "The functions are defined twice", "Give either definitions or file.")
		return
	}
	b, err := readDefinitions(d.path(name))
	if err != nil {
		d.fail(where, fmt.Sprintf("The definitions in %s cannot be read", name), "%v. A relative path begins at the directory of the configuration.", err)
		d.diags[len(d.diags)-1].Extra = unavailable{fmt.Errorf("the definitions cannot be read: %w", err)}
		return
	}
	d.read(d.path(name), b)
	values["definitions"] = string(b)
	ranges[pathKey(slices.Concat(at, []string{"definitions"}))] = where
}

func readDefinitions(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case st.Size() > maxDefinitions:
		return nil, fmt.Errorf("it is larger than %d MiB", maxDefinitions>>20)
	}
	return os.ReadFile(path)
}

// resolve makes the paths in a block absolute. It returns true if the block starts a local program, and false if the
// block connects to a server.
func (d *decoder) resolve(values map[string]any, at []string, ranges bodyRanges, out *Plugin) (local bool) {
	var command []string
	if raw, ok := values["command"].(json.RawMessage); ok && json.Unmarshal(raw, &command) == nil && len(command) > 0 {
		if strings.ContainsRune(command[0], filepath.Separator) {
			command[0] = d.path(command[0])
			values["command"] = command
			out.Confinement.Run = append(out.Confinement.Run, command[0])
		}
		whole := slices.Concat(at, []string{"command"})
		for i := range command { // report a problem at the position of the argument
			ranges[pathKey(slices.Concat(whole, []string{strconv.Itoa(i)}))] = ranges[pathKey(whole)]
		}
	}
	var cwd string
	if raw, ok := values["cwd"].(json.RawMessage); ok && json.Unmarshal(raw, &cwd) == nil && cwd != "" {
		values["cwd"] = d.path(cwd)
	}
	_, remote := values["url"]
	return !remote
}

// passOn sets the configuration and the confinement of a field's plugin. If exec is true, the plugin can start programs
// and write files. If network is true, the plugin can use the network. For access to the roots, the operator must grant
// a separate permission.
func (d *decoder) passOn(values map[string]any, ranges bodyRanges, out *Plugin, exec, network bool) {
	for _, unsaid := range []struct {
		said  **bool
		value bool
	}{
		{&out.Confinement.Exec, exec}, {&out.Confinement.Network, network},
		{&out.Confinement.WriteRoots, exec}, {&out.Confinement.NoRoots, !exec},
	} {
		if *unsaid.said == nil {
			*unsaid.said = &unsaid.value
		}
	}
	b, err := json.Marshal(values)
	if err != nil {
		d.fail(ranges[""], "The block cannot be passed on", "%v", err)
	}
	out.Config, out.config = b, ranges
}

// Server returns the URL of the remote server that the plugin mounts, or "". The result "header" reports whether the
// configuration contains the header Authorization for the server.
func (p *Plugin) Server() (server string, header bool) {
	var c struct {
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	}
	if !p.Mounted || json.Unmarshal(p.Config, &c) != nil {
		return "", false
	}
	for name := range c.Headers {
		header = header || strings.EqualFold(name, "Authorization")
	}
	return c.URL, header
}
