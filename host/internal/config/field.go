package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/tool"
)

// fieldHCL is a field namespace whose tools come from elsewhere than a plugin of its own.
type fieldHCL struct {
	Name         string          `hcl:"name,label"`
	Timeout      hcl.Expression  `hcl:"timeout,optional"`
	StartTimeout hcl.Expression  `hcl:"start_timeout,optional"`
	Sandbox      *confinementHCL `hcl:"sandbox,block"`
	MCP          []configHCL     `hcl:"mcp,block"`
	At           hcl.Range       `hcl:",def_range"`
}

// mountPlugin is the bundled plugin that serves the tools of an MCP server as its own.
const mountPlugin = "mcp"

// How long a mounted server may take to start, and for a call without a sign of life.
const (
	mountStartTimeout = 30 * time.Second
	mountCallTimeout  = 2 * time.Minute
	// mountSpare is what the plugin itself has for its start beside that of the server, so
	// that it can say what became of it.
	mountSpare = 10 * time.Second
)

// field makes a plugin of a field block: the bundled one for its kind, with what the block
// says as its configuration.
func (d *decoder) field(f *fieldHCL) {
	if !tool.ValidName(f.Name) {
		d.fail(f.At, fmt.Sprintf("%q cannot name a field namespace", f.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
		return
	}
	if len(f.MCP) != 1 {
		d.fail(f.At, fmt.Sprintf("Field %q needs one mcp block", f.Name), "Say which server it is: mcp { command = [\"…\"] } or mcp { url = \"…\" }.")
		return
	}
	start, call := d.duration(f.StartTimeout), d.duration(f.Timeout)
	if start == 0 {
		start = mountStartTimeout
	}
	if call == 0 {
		call = mountCallTimeout
	}
	out := Plugin{
		Name: f.Name, Field: f.Name, Mounted: true, Path: filepath.Join(d.env.BundledDir, mountPlugin), StartTimeout: start + mountSpare,
		Args: []string{"--start-timeout", start.String(), "--call-timeout", call.String()}, at: f.At,
	}
	if out.Missing = missing(out.Path); d.env.BundledDir == "" {
		out.Missing = "there are no bundled plugins, one of which mounts MCP servers"
	}
	if f.Sandbox != nil {
		out.Confinement = d.confinement(f.Sandbox)
	}
	d.mount(&f.MCP[0], &out)
	d.cfg.Plugins = append(d.cfg.Plugins, out)
}

// mount reads an mcp block. The plugin judges it; what depends on where the file stands is
// settled here.
func (d *decoder) mount(c *configHCL, out *Plugin) {
	ranges := bodyRanges{"": c.At}
	values := d.body(c.Body, nil, ranges)
	var command []string
	if raw, ok := values["command"].(json.RawMessage); ok && json.Unmarshal(raw, &command) == nil && len(command) > 0 {
		if strings.ContainsRune(command[0], filepath.Separator) {
			command[0] = d.path(command[0])
			values["command"] = command
			out.Confinement.Run = []string{command[0]}
		}
		for i := range command { // what is wrong with a part of it
			ranges[pathKey([]string{"command", strconv.Itoa(i)})] = ranges["command"]
		}
	}
	var cwd string
	if raw, ok := values["cwd"].(json.RawMessage); ok && json.Unmarshal(raw, &cwd) == nil && cwd != "" {
		values["cwd"] = d.path(cwd)
	}
	// A server started here runs programs; one elsewhere is reached. Neither does the other
	// unless the operator says so.
	_, remote := values["url"]
	local := !remote
	if remote {
		out.Args = append(out.Args, "--remote")
	}
	for _, unsaid := range []struct {
		said  **bool
		value *bool
	}{
		{&out.Confinement.Exec, &local}, {&out.Confinement.Network, &remote},
		{&out.Confinement.WriteRoots, &local}, {&out.Confinement.NoRoots, &remote},
	} {
		if *unsaid.said == nil {
			*unsaid.said = unsaid.value
		}
	}
	b, err := json.Marshal(values)
	if err != nil {
		d.fail(c.At, "The mcp block cannot be passed on", "%v", err)
	}
	out.Config, out.config = b, ranges
}
