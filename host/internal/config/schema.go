package config

import (
	"reflect"
	"strings"
	"sync"

	"toolhost.dev/host/internal/config/internal/schema"
	"toolhost.dev/sandbox"
)

// Block describes a kind of block, or the top level of a file.
type Block = schema.Block

// Attribute describes an attribute of a block.
type Attribute = schema.Attribute

// backendWords lists the valid values for the sandbox backend.
func backendWords() string {
	words := sandbox.Words()
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Schema returns the schema of a configuration. Its blocks and attributes have the order of the Go structs.
var Schema = sync.OnceValue(func() *Block {
	out := &Block{Repeats: true}
	describe(out, reflect.TypeFor[preludeHCL]())
	describe(out, reflect.TypeFor[fileHCL]())
	return out
})

// describe adds the fields of a struct type to the schema of a block. The HCL decoder decodes the block into this type.
func describe(b *Block, t reflect.Type) {
	for i := range t.NumField() {
		name, kind, _ := strings.Cut(t.Field(i).Tag.Get("hcl"), ",")
		path := strings.TrimPrefix(b.Path+"."+name, ".")
		switch kind {
		case "label":
			b.Labels = append(b.Labels, name)
		case "block":
			is := t.Field(i).Type
			inner := &Block{Name: name, Path: path, Doc: blocks[path].doc, Repeats: is.Kind() == reflect.Slice}
			describe(inner, is.Elem())
			b.Blocks = append(b.Blocks, inner)
		case "remain":
			t := blocks[b.Path].table
			if b.Free = t == nil && b.Path != ""; t != nil {
				t.describe(b, "")
			}
		case "optional":
			a := untabled[path]
			a.Name = name
			b.Attributes = append(b.Attributes, a)
		}
	}
}

// blocks contains the table and the description of each block, by its path. A block without a table can have
// any content, unless [untabled] lists its attributes.
var blocks = map[string]struct {
	table interface{ describe(b *Block, prefix string) }
	doc   string
}{
	"variable":          {nil, "A value that differs between installations, used as var.NAME."},
	"locals":            {nil, "Names for expressions, used as local.NAME."},
	"host":              {hostTable, "Settings of the host itself."},
	"sandbox":           {sandboxTable, "The files that tools may access, and how the kernel enforces it."},
	"sandbox.root":      {rootTable, "A further directory that tools may read."},
	"workspace":         {workspaceTable, "Whether sessions work in branches: layers over the workspace that receive all changes until they are applied."},
	"fleet":             {fleetTable, "Settings of a host in a fleet: hosts that serve one set of sessions. It takes effect with toolhost serve --fleet, at the start."},
	"fleet.workspace":   {fleetWorkspaceTable, "A workspace that sessions name, in place of a path."},
	"reload":            {reloadTable, "Handling of changed binaries and changed configuration files."},
	"plugin":            {pluginTable, "A binary that serves tools."},
	"plugin.restart":    {restartTable, "Conditions under which a plugin that keeps failing is suspended."},
	"plugin.rollout":    {rolloutTable, "Takes a changed binary into service step by step, in hosts that run for long, in place of a swap."},
	"plugin.sandbox":    {confinementTable, "Abilities that the kernel allows the plugin."},
	"plugin.config":     {nil, "The plugin's own configuration, checked against the schema that it declares."},
	"field":             {fieldTable, "A namespace of tools from an MCP server, or from functions."},
	"field.sandbox":     {confinementTable, "Abilities that the kernel allows the server or function, as in a plugin block."},
	"field.mcp":         {nil, "An MCP server: command, env and cwd for one that is started, url and headers for one that is reached; oauth { scopes, client_id, client_secret } for its login."},
	"field.function":    {nil, "Functions: file or definitions, with command, env and cwd, or url, method and headers; read_only, concurrent, dangerous."},
	"tool":              {toolTable, "The operator's settings for one tool."},
	"tool.fallback":     {fallbackTable, "The tool that is called instead if the tool is unavailable or too slow."},
	"alias":             {aliasTable, "Another name for a tool."},
	"hook":              {hookTable, "A program or a plugin that receives events of calls and tools."},
	"permissions":       {permissionsTable, "Rules for the calls that may be made."},
	"permissions.deny":  {ruleTable, "A rule that refuses calls."},
	"permissions.ask":   {ruleTable, "A rule that asks a person about calls."},
	"permissions.allow": {ruleTable, "A rule that allows calls."},
	"permissions.test":  {testTable, "An expected decision on a command, checked by toolhost policy test."},
	"trust":             {trustTable, "Handling of what nobody has reviewed: changed definitions of tools, and configurations in a workspace."},
	"audit":             {auditTable, "Settings of the audit log."},
	"retention":         {retentionTable, "How long the state directory keeps data. The audit log has its own limits, in the block audit."},
	"tracing":           {tracingTable, "Destination of traces of calls."},
	"principal":         {principalTable, "A caller other than the local user, authenticated by a token, an issuer or the user of a Unix socket."},
	"principal.limits":  {principalLimitsTable, "Limits of this principal."},
	"issuer":            {issuerTable, "An OpenID Connect provider whose signed tokens are accepted."},
	"record":            {recordTable, "Sessions that a host which keeps running records on tapes. A session that cannot be recorded goes on."},
	"quota":             {quotaTable, `Limits for a field or a principal, such as quota "field:jira" or quota "principal:ci". The name * stands for each one without a quota of its own. A call over a limit fails at once as unavailable, with the time after which another try can succeed. Each host process counts for itself.`},
	"quota.breaker":     {breakerTable, "Refuses the calls of a subject that keeps failing. For a field, calls that are unavailable, time out or fail internally count; for a principal, all failed calls."},
	"endpoint":          {endpointTable, "A list of tools for MCP clients, at /mcp/NAME of toolhost serve and with toolhost mcp --endpoint NAME."},
	"publisher":         {publisherTable, "The keys that sign the plugins of one publisher. Without it, the key of the first install counts."},
	"mirror":            {mirrorTable, "Another place of sources. What it lacks is not looked up elsewhere."},
	"catalog":           {catalogTable, "A signed list of plugins, which toolhost plugin search reads."},
}

// untabled contains the attributes that a file needs before its blocks can be decoded.
var untabled = map[string]schema.Attribute{
	"# The reference of the configuration: path": {Type: "type", Default: "default", Doc: `description. Blocks have the type "block".`, Rights: schema.Free},
	"bundled":              {Type: "bool", Default: "true", Doc: "Whether the bundled plugins that no plugin block configures are added.", Rights: schema.Compared},
	"variable.default":     {Type: "any", Default: "", Doc: "Value if none is set.", Rights: schema.Free},
	"variable.type":        {Type: "type", Default: "", Doc: "Type: string, number, bool, any, list(…), set(…), map(…) or object({…}).", Rights: schema.Free},
	"variable.description": {Type: "string", Default: "", Doc: "Purpose of the variable.", Rights: schema.Free},
	"variable.sensitive":   {Type: "bool", Default: "false", Doc: "Whether the value is masked in output and messages.", Rights: schema.Free},
}
