package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
)

// Program is a program that the host starts because of the configuration.
type Program struct {
	// Block is the block of the program, such as `plugin "x"`. Place is the position of the block, as "file:line".
	Block, Place string
	// Command is the program with its arguments. Env contains additional environment variables for the program.
	Command []string
	Env     map[string]string
	// Dir is the working directory of the program. Empty means the directory of the session.
	Dir string
	// Plugin reports whether the program is the binary of a plugin. PerCall reports whether the program starts once for
	// each tool call.
	Plugin, PerCall bool
}

// Programs returns the programs of a configuration: plugins that are not bundled, hooks, and the commands of fields.
func (c *Config) Programs(bundledDir string) []Program {
	var out []Program
	add := func(p Plugin) {
		block, at := "plugin", place(p.at)
		if filepath.Dir(p.Path) != filepath.Clean(bundledDir) {
			out = append(out, Program{
				Block: block + ` "` + p.Name + `"`, Place: at, Command: slices.Concat([]string{p.Path}, p.Args),
				Env: p.Env, Dir: "/", Plugin: true,
			})
		}
		for _, program := range p.commands() {
			program.Block, program.Place = `field "`+p.Name+`"`, at
			out = append(out, program)
		}
	}
	for _, p := range c.Plugins {
		add(p)
	}
	for _, p := range c.absent {
		add(p.Plugin)
	}
	for _, h := range c.Hooks {
		if len(h.Command) > 0 {
			out = append(out, Program{
				Block: `hook "` + h.Name + `"`, Place: h.Place, Command: h.Command, Env: h.Env, Dir: "/",
			})
		}
	}
	return out
}

// commands returns the programs in a plugin's configuration: the server of an "mcp" block and the programs of
// "function" blocks. It reads each setting separately, so that an invalid setting does not hide other settings.
func (p *Plugin) commands() (out []Program) {
	var values map[string]json.RawMessage
	if json.Unmarshal(p.Config, &values) != nil {
		return nil
	}
	add := func(values map[string]json.RawMessage, perCall bool) {
		program := Program{PerCall: perCall}
		var env map[string]any
		for name, into := range map[string]any{"command": &program.Command, "cwd": &program.Dir, "env": &env} {
			_ = json.Unmarshal(values[name], into) // ignore the error: the plugin reports a setting with the wrong type
		}
		for name, value := range env {
			if program.Env == nil {
				program.Env = make(map[string]string)
			}
			program.Env[name] = fmt.Sprint(value)
		}
		if len(program.Command) > 0 {
			out = append(out, program)
		}
	}
	add(values, false)
	var functions []json.RawMessage
	_ = json.Unmarshal(values["function"], &functions)
	for _, raw := range functions {
		var values map[string]json.RawMessage
		if json.Unmarshal(raw, &values) == nil {
			add(values, true)
		}
	}
	return out
}

// ReplacePrograms changes the programs of plugins. The argument maps names of plugins to absolute paths of their new
// programs.
func (c *Config) ReplacePrograms(programs map[string]string) error {
	for name, path := range programs {
		p := c.Plugin(name)
		if p == nil {
			return fmt.Errorf("the configuration has no plugin %q, so %s cannot replace it", name, path)
		}
		p.Path, p.Missing = path, ""
	}
	return nil
}

// Refuse turns off the block of a program; see [Program.Block]. The argument "why" is the reason.
func (c *Config) Refuse(block, why string) {
	for i := range c.Plugins {
		if p := &c.Plugins[i]; block == `plugin "`+p.Name+`"` || block == `field "`+p.Name+`"` {
			p.Refused = why
		}
	}
	for i := range c.Hooks {
		if h := &c.Hooks[i]; block == `hook "`+h.Name+`"` {
			h.Refused = why
		}
	}
}

// Refusal returns the reason why a block is turned off. It returns "" for other blocks.
func (c *Config) Refusal(block string) string {
	for i := range c.Plugins {
		if p := &c.Plugins[i]; block == `plugin "`+p.Name+`"` || block == `field "`+p.Name+`"` {
			return p.Refused
		}
	}
	for i := range c.Hooks {
		if h := &c.Hooks[i]; block == `hook "`+h.Name+`"` {
			return h.Refused
		}
	}
	return ""
}

// RunCopies replaces the programs of hooks and fields by copies. The argument "copies" maps each program to the path of
// its copy.
func (c *Config) RunCopies(copies map[string]string) {
	c.copies = copies
	for i := range c.Hooks {
		if command := c.Hooks[i].Command; len(command) > 0 && copies[command[0]] != "" {
			c.Hooks[i].Command = slices.Concat([]string{copies[command[0]]}, command[1:])
		}
	}
	for i := range c.Plugins {
		p := &c.Plugins[i]
		for _, path := range p.Confinement.Run {
			if copied := copies[path]; copied != "" {
				p.Confinement.Run = append(p.Confinement.Run, copied)
			}
		}
		for _, program := range p.commands() {
			if copied := copies[program.Command[0]]; copied != "" && !slices.Contains(p.Confinement.Run, copied) { // Run does not contain the program if the host found it in PATH
				p.Confinement.Run = append(p.Confinement.Run, copied)
			}
			p.Config = runCopies(p.Config, copies)
		}
	}
}

// runCopies replaces the programs in a plugin's configuration by copies.
func runCopies(raw json.RawMessage, copies map[string]string) json.RawMessage {
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		return raw
	}
	var command []string
	if json.Unmarshal(values["command"], &command) == nil && len(command) > 0 && copies[command[0]] != "" {
		command[0] = copies[command[0]]
		values["command"], _ = json.Marshal(command) // ignore the error: strings can always be encoded
	}
	var functions []json.RawMessage
	if json.Unmarshal(values["function"], &functions) == nil {
		for i := range functions {
			functions[i] = runCopies(functions[i], copies)
		}
		values["function"], _ = json.Marshal(functions)
	}
	out, err := json.Marshal(values)
	if err != nil {
		return raw
	}
	return out
}

// Texts returns the text of every file that was read, by absolute path.
func (c *Config) Texts() map[string][]byte {
	out := make(map[string][]byte, len(c.files))
	for name, text := range c.files {
		if c.generated(name) {
			continue
		}
		if abs, err := filepath.Abs(name); err == nil {
			name = abs
		}
		out[name] = text
	}
	return out
}
