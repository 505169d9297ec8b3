// Package agents moves settings between coding agents and the configuration. [ImportServers] adds an agent's MCP
// servers to the configuration, and [ProposePolicy] adds a policy to the setup of an agent.
package agents

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/admin"
	"toolhost.dev/host/agent"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
)

// Import describes the blocks that the servers of an agent add to the configuration.
type Import struct {
	// Change appends the field blocks to the configuration. It is nil if no block must be added.
	Change *agent.Change
	// Notes names the servers and settings that are omitted, and the steps that a person must do.
	Notes []string
}

// ImportServers reads the MCP servers from a settings file of an agent. It returns a change that adds these servers to
// the configuration. It writes nothing. The function getenv returns environment variables, because they can name the
// user's configuration.
func ImportServers(opts admin.Options, file string, getenv func(string) string) (*Import, error) {
	servers, err := agent.ReadServers(file)
	if err != nil {
		return nil, err
	}
	path, err := importTarget(opts.Config, getenv)
	if err != nil {
		return nil, err
	}
	c, err := agent.NewChange(path)
	if err != nil {
		return nil, err
	}
	if !c.Existed {
		opts.Config = ""
	} else if opts.Config == "" {
		opts.Config = path
	}
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	cfg, err := source.Load() // load the file itself, even if it is not trusted
	if err != nil {
		return nil, err
	}
	out := &Import{}
	blocks := out.blocks(servers, cfg, file)
	if len(blocks) == 0 {
		return out, nil
	}
	c.After = append(bytes.TrimRight(c.Before, "\n"), '\n')
	if !c.Existed {
		c.After = nil
	}
	for i, b := range blocks {
		if i > 0 || c.Existed {
			c.After = append(c.After, '\n')
		}
		c.After = append(c.After, b...)
	}
	if _, err := config.Format(path, c.After); err != nil {
		return nil, err
	}
	out.Change = c
	return out, nil
}

// importTarget returns the path of the configuration file to which the import appends its blocks. If path is empty,
// this is a new configuration of the user.
func importTarget(path string, getenv func(string) string) (string, error) {
	if path == "" {
		dir := config.UserDir(getenv)
		if dir == "" {
			return "", errors.New("the directory of your configuration is unknown; set HOME, or name a file with --config")
		}
		return filepath.Join(dir, "toolhost", config.ProjectFiles[0]), nil
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return "", fmt.Errorf("%s is a directory; name the file in it with --config", path)
	}
	if strings.HasSuffix(path, ".json") {
		return "", errors.New(path + " is in JSON, to which blocks cannot be appended; name another file with --config, such as one in a directory of files")
	}
	return path, nil
}

// blocks returns field blocks for the servers that are missing in the configuration.
func (im *Import) blocks(servers []agent.Server, cfg *config.Config, file string) (out [][]byte) {
	taken := make(map[string]string) // maps each used name to the server that uses it, or to "" if the configuration uses it
	for _, p := range cfg.Plugins {
		taken[p.Name] = ""
	}
	for _, name := range cfg.Off {
		taken[name] = ""
	}
	note := func(format string, a ...any) { im.Notes = append(im.Notes, fmt.Sprintf(format, a...)) }
	for _, s := range servers {
		name := config.FieldName(s.Name)
		other, used := taken[name]
		switch {
		case s.Skip != "":
			note("%s is left out: %s.", s.Name, s.Skip)
			continue
		case name == "":
			note("%s is left out: its name has no letters that a field can have. Rename it in %s.", s.Name, file)
			continue
		case used && other != "":
			note("%s is left out: %s would have the same field name %q. Rename one of them in %s.", s.Name, other, name, file)
			continue
		case used:
			note("%s is left out: the configuration has %q already.", s.Name, name)
			continue
		}
		taken[name] = s.Name
		m := config.Mount{Name: name, Command: s.Command, Env: s.Env, Dir: s.Dir, URL: s.URL, Headers: s.Headers,
			StartTimeout: s.StartTimeout, Timeout: s.Timeout}
		text, secrets := m.HCL()
		out = append(out, text)
		im.Notes = append(im.Notes, s.Lost...)
		asked := m.Inputs()
		for _, input := range slices.Sorted(maps.Keys(asked)) {
			note("%s asks its user for %s, and toolhost does not. Set %s in the environment of toolhost.", s.Name, input, asked[input])
		}
		for _, variable := range secrets {
			note("A secret of %s is not copied. Set %s in the environment of toolhost to the value in %s.", s.Name, variable, file)
		}
	}
	return out
}
