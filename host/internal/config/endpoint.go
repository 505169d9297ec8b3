package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/sdk/tool"
)

var endpointTable = newTable(
	row("tools",
		ownList(func(e *Endpoint) *[]string { return &e.Tools }, func(d *decoder, a *hcl.Attribute, to *Endpoint) {
			to.Tools = d.toolGlobs("endpoint", to.Name, a.Expr)
		}), filter, "(all)", `Globs for the full names of the tools, such as "read" or "jira:*". Calls of other tools are refused, in commands too.`),
	row("mode", choice(func(e *Endpoint) *string { return &e.Mode }, "all", "single", "lazy", "auto"), free,
		`"auto"`, "What is listed: all tools; single: one tool, bash, for commands; lazy: the core tools, find_tools and bash. auto is lazy above 60 tools or 64 KiB of definitions, and all otherwise."),
	row("core", custom("list(string)", func(e *Endpoint) *[]string { return &e.Core }, (*decoder).core), free, `["read", "edit", "grep"]`, "Full names of the tools that a lazy endpoint lists."),
	row("principals", ownList(func(e *Endpoint) *[]string { return &e.Principals }, (*decoder).endpointPrincipals), filter,
		"(all)", `Principals that may use the endpoint over HTTP, such as "start-token". The endpoint does not exist for others.`),
	row("keep_alive", not(func(e *Endpoint) *bool { return &e.Silent }), free,
		"true", "A call of which nothing is heard for 10 seconds reports progress if its client wants progress, and over HTTP its response gets a comment every 15 seconds. Many clients and proxies give up after a minute of silence."),
)

// Endpoint is a list of tools for MCP clients. An endpoint can restrict the rights of a principal but not extend them.
type Endpoint struct {
	Name string
	// Tools contains globs for full names of tools. A nil list means all tools.
	Tools []string
	// Mode determines which tools are listed: "all", "single", "lazy" or "auto".
	Mode string
	// Core contains the full names of the tools that are listed in the mode "lazy". A nil list means the tools with the
	// roles in [DefaultCore].
	Core []string
	// Principals contains the names of the principals that can use the endpoint. A nil list means all principals.
	Principals []string
	// Silent turns off the signs of life that clients receive while a call produces no output.
	Silent bool
}

// DefaultCore contains the roles of the tools that a lazy endpoint lists if the configuration does not name them.
var DefaultCore = []tool.Role{tool.RoleRead, tool.RoleEdit, tool.RoleSearch}

// Offers reports whether the endpoint contains a tool. The argument is the full name of the tool.
func (e *Endpoint) Offers(name string) bool {
	return e.Tools == nil || matchesName(e.Tools, name)
}

// MayCall reports whether the plugin's own code is allowed to call a tool. The argument is the full name of the tool.
func (p *Plugin) MayCall(name string) bool { return matchesName(p.Calls, name) }

func matchesName(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, name)
		return ok && err == nil
	})
}

// Admits reports whether a principal can use the endpoint. If an issuer authenticated the principal, its name consists
// of the name of the issuer's block, "/" and the subject.
func (e *Endpoint) Admits(principal string) bool {
	block, _, _ := strings.Cut(principal, "/")
	return e.Principals == nil || slices.Contains(e.Principals, principal) || slices.Contains(e.Principals, block)
}

// endpoints reads the endpoint blocks. The caller must read the principals first, because endpoints name them.
func (d *decoder) endpoints(blocks []namedHCL) {
	for _, b := range blocks {
		switch {
		case slices.ContainsFunc(d.cfg.Endpoints, func(e Endpoint) bool { return e.Name == b.Name }):
			d.fail(b.At, fmt.Sprintf("Endpoint %q is configured twice", b.Name), "Remove one, or give it another name.")
			continue
		case !tool.ValidName(b.Name):
			d.fail(b.At, fmt.Sprintf("%q cannot name an endpoint", b.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter.")
			continue
		}
		out := Endpoint{Name: b.Name, Mode: "auto"}
		endpointTable.read(d, b.Rest, &out)
		d.cfg.Endpoints = append(d.cfg.Endpoints, out)
	}
}

// core evaluates the tools that a lazy endpoint lists.
func (d *decoder) core(a *hcl.Attribute, to *Endpoint) {
	d.keepPosition("core of endpoint", to.Name, a.Expr)
	to.Core = append([]string{}, d.texts(a.Expr)...)
	for _, name := range to.Core {
		if !to.Offers(name) {
			d.fail(a.Expr.Range(), fmt.Sprintf("Endpoint %q does not offer %s", to.Name, name), "Each tool in core must match an entry of tools. Add it to tools, or remove it from core.")
		}
	}
}

// endpointPrincipals evaluates the principals that can use an endpoint.
func (d *decoder) endpointPrincipals(a *hcl.Attribute, to *Endpoint) {
	to.Principals = append([]string{}, d.texts(a.Expr)...)
	d.knownPrincipals(to.Principals, a.Expr.Range())
}
