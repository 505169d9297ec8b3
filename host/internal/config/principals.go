package config

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	"toolhost.dev/host/internal/principal"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

type principalHCL struct {
	Name       string              `hcl:"name,label"`
	Role       hcl.Expression      `hcl:"role,optional"`
	Rights     hcl.Expression      `hcl:"rights,optional"`
	Workspaces hcl.Expression      `hcl:"workspaces,optional"`
	Tools      hcl.Expression      `hcl:"tools,optional"`
	Fields     hcl.Expression      `hcl:"fields,optional"`
	AnswersFor hcl.Expression      `hcl:"answers_for,optional"`
	Users      hcl.Expression      `hcl:"users,optional"`
	Issuer     hcl.Expression      `hcl:"issuer,optional"`
	Claims     map[string]string   `hcl:"claims,optional"`
	Limits     *principalLimitsHCL `hcl:"limits,block"`
	At         hcl.Range           `hcl:",def_range"`
}

type principalLimitsHCL struct {
	Calls    hcl.Expression `hcl:"calls,optional"`
	Sessions hcl.Expression `hcl:"sessions,optional"`
	Output   hcl.Expression `hcl:"output,optional"`
}

type issuerHCL struct {
	Name     string         `hcl:"name,label"`
	URL      hcl.Expression `hcl:"url,optional"`
	Audience hcl.Expression `hcl:"audience,optional"`
	Resource hcl.Expression `hcl:"resource,optional"`
	Scopes   hcl.Expression `hcl:"scopes,optional"`
	ClientID hcl.Expression `hcl:"client_id,optional"`
	Secret   hcl.Expression `hcl:"client_secret,optional"`
	At       hcl.Range      `hcl:",def_range"`
}

// ReservedPrincipals lists the names of principals that the host itself creates.
var ReservedPrincipals = []string{"anonymous", "start-token", "approver-token", "unix"}

// principals collects the principals and the issuers.
func (d *decoder) principals(blocks []principalHCL, issuers []issuerHCL) {
	out := &d.cfg.Access
	for _, b := range issuers {
		if slices.ContainsFunc(out.Issuers, func(i principal.Issuer) bool { return i.Name == b.Name }) {
			d.fail(b.At, fmt.Sprintf("Issuer %q is configured twice", b.Name), "Remove one, or give it another name.")
			continue
		}
		out.Issuers = append(out.Issuers, d.issuer(&b))
	}
	for i := range blocks {
		b := &blocks[i]
		switch {
		case slices.ContainsFunc(out.Principals, func(p principal.Block) bool { return p.Name == b.Name }):
			d.fail(b.At, fmt.Sprintf("Principal %q is configured twice", b.Name), "Remove one, or give it another name.")
			continue
		case !tool.ValidName(b.Name) || slices.Contains(ReservedPrincipals, b.Name):
			d.fail(b.At, fmt.Sprintf("%q cannot name a principal", b.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter. These names are taken: %s.", strings.Join(ReservedPrincipals, ", "))
			continue
		}
		out.Principals = append(out.Principals, d.principal(b, out.Issuers))
	}
	for i := range blocks {
		d.answersFor(&blocks[i], out.Principals)
	}
}

func (d *decoder) issuer(b *issuerHCL) principal.Issuer {
	out := principal.Issuer{Name: b.Name}
	if out.URL = d.required(b.URL, b.At, "url", fmt.Sprintf("Issuer %q has no url", b.Name), `url = "https://login.example.com"`); out.URL != "" {
		u, err := url.Parse(out.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
			d.fail(b.URL.Range(), fmt.Sprintf("%q cannot be an issuer", out.URL), "Use the https URL that the provider's tokens have in the claim iss.")
		}
	}
	if given(b.Resource) {
		if out.Resource = d.text(b.Resource); !resourceURL(out.Resource) {
			d.fail(b.Resource.Range(), fmt.Sprintf("%q cannot be the resource of issuer %q", out.Resource, b.Name), "Use the https URL under which clients reach this server, for example: https://tools.example.com/mcp.")
		}
	}
	if given(b.Audience) || out.Resource == "" {
		out.Audience = d.required(b.Audience, b.At, "audience", fmt.Sprintf("Issuer %q has no audience", b.Name), `audience = "toolhost"`)
	}
	if given(b.Scopes) {
		scopes := d.texts(b.Scopes)
		if slices.ContainsFunc(scopes, func(s string) bool { return s == "" || strings.ContainsAny(s, " \t\r\n\"\\") }) {
			d.fail(b.Scopes.Range(), fmt.Sprintf("The scopes of issuer %q cannot be used", b.Name), "Write each scope as a text without spaces and quotes.")
		}
		out.Scopes = strings.Join(scopes, " ")
	}
	if given(b.ClientID) {
		out.ClientID = d.text(b.ClientID)
	}
	if given(b.Secret) {
		out.ClientSecret = d.text(b.Secret)
	}
	if out.ClientSecret != "" && out.ClientID == "" {
		d.fail(b.Secret.Range(), fmt.Sprintf("Issuer %q has a client_secret and no client_id", b.Name), "Add client_id, the name of the console at the provider.")
	}
	return out
}

// resourceURL reports whether a text can identify a protected resource (RFC 9728, section 1.2).
func resourceURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && u.User == nil && u.Fragment == "" && u.RawQuery == "" && (u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()))
}

func loopback(name string) bool { return name == "localhost" || name == "127.0.0.1" || name == "::1" }

// required evaluates a string attribute that a block must contain.
func (d *decoder) required(e hcl.Expression, at hcl.Range, name, problem, example string) (s string) {
	if given(e) {
		d.add(gohcl.DecodeExpression(e, d.ctx, &s))
		at = e.Range()
	}
	if s == "" && !d.diags.HasErrors() {
		d.fail(at, problem, "Set %s, for example: %s.", name, example)
	}
	return s
}

func (d *decoder) principal(b *principalHCL, issuers []principal.Issuer) principal.Block {
	out := principal.Block{Name: b.Name, Claims: b.Claims}
	out.Rights = d.rights(b)
	out.Workspaces = d.workspaces(b.Workspaces)
	if given(b.Fields) {
		d.keepPosition("fields of principal", b.Name, b.Fields)
		out.Fields = d.texts(b.Fields)
	}
	out.Tools = d.toolGlobs("principal", b.Name, b.Tools)
	if given(b.Users) {
		out.Users = d.users(b.Users)
	}
	if given(b.Issuer) {
		out.Issuer = d.text(b.Issuer)
		var names []string
		for _, i := range issuers {
			names = append(names, i.Name)
		}
		if !slices.Contains(names, out.Issuer) {
			d.fail(b.Issuer.Range(), fmt.Sprintf("There is no issuer %q", out.Issuer), "Add it: issuer %q { … }.%s", out.Issuer, suggest.DidYouMean(out.Issuer, names))
		}
	}
	switch {
	case out.Issuer == "" && len(b.Claims) > 0:
		d.fail(b.At, fmt.Sprintf("Principal %q has claims and no issuer", b.Name), "Name the issuer of the tokens: issuer = \"NAME\".")
	case out.Issuer != "" && len(b.Claims) == 0:
		d.fail(b.At, fmt.Sprintf("Principal %q accepts every token of issuer %q", b.Name, out.Issuer), "Say which ones: claims = { sub = \"…\" }, or claims = { groups = \"…\" }.")
	}
	if l := b.Limits; l != nil {
		out.MaxCalls = d.positive(l.Calls, "calls", "At least one call must be possible. Leave it out for no limit.")
		out.MaxSessions = d.positive(l.Sessions, "sessions", "At least one session must be possible. Leave it out for no limit.")
		out.MaxOutput = int64(min(d.size(l.Output), math.MaxInt64))
	}
	return out
}

func (d *decoder) rights(b *principalHCL) principal.Rights {
	switch {
	case given(b.Role) && given(b.Rights):
		d.fail(b.Rights.Range(), "role and rights are the same setting", "Remove one of them.")
	case given(b.Role):
		return principal.Roles[d.choice(b.Role, "caller", slices.Sorted(maps.Keys(principal.Roles))...)]
	case given(b.Rights):
		rights, unknown := principal.ParseRights(d.texts(b.Rights))
		if unknown != "" {
			names := principal.All.Names()
			d.fail(b.Rights.Range(), fmt.Sprintf("There is no right %q", unknown), "There are %s.%s", strings.Join(names, ", "), suggest.DidYouMean(unknown, names))
		}
		return rights
	}
	return principal.Call
}

// workspaces evaluates a list of directories. No directory can be inside another directory. Otherwise a principal that
// writes in the outer directory could replace the inner directory.
func (d *decoder) workspaces(e hcl.Expression) (out []string) {
	if !given(e) {
		return nil
	}
	for _, w := range d.texts(e) {
		if w != "*" {
			w = d.path(w)
		}
		out = append(out, w)
	}
	for i, w := range out {
		if strings.Contains(strings.TrimSuffix(w, "/*"), "*") && w != "*" {
			d.fail(e.Range(), fmt.Sprintf("%q is not a directory", w), "Only the last part can be *: \"DIR/*\" permits each directory directly inside DIR.")
		}
		for _, other := range slices.Concat(out[:i], out[i+1:]) {
			if w == "*" || other == "*" || other != w && tool.Within(other, w) {
				d.fail(e.Range(), fmt.Sprintf("Workspace %q is inside %q", w, other), "A principal that writes in the outer one could replace the inner one. Name one of them.")
				return out
			}
		}
	}
	if len(out) == 0 {
		d.fail(e.Range(), "The list of workspaces is empty", "Leave it out for the workspace in which the host is started.")
	}
	return out
}

// toolGlobs evaluates a list of globs for names of tools, and saves its position.
func (d *decoder) toolGlobs(block, name string, e hcl.Expression) []string {
	if !given(e) {
		return nil
	}
	d.keepPosition(block, name, e)
	out := d.texts(e)
	for _, glob := range out {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			d.fail(e.Range(), fmt.Sprintf("%q is not a glob for names of tools", glob), "Use a name such as \"read\" or \"jira:search\", or a glob such as \"jira:*\".")
		}
	}
	return out
}

// users evaluates a list of user ids or user names.
func (d *decoder) users(e hcl.Expression) (out []int) {
	for _, name := range d.texts(e) {
		id, err := strconv.Atoi(name)
		if err != nil {
			var u *user.User
			if u, err = user.Lookup(name); err == nil {
				id, err = strconv.Atoi(u.Uid)
			}
		}
		if err != nil || id < 0 {
			d.fail(e.Range(), fmt.Sprintf("There is no user %q on this machine", name), "Use the name or the number of a user.")
			continue
		}
		out = append(out, id)
	}
	return out
}

// answersFor evaluates a list of principals. The principal of block b answers the asks of these principals. Principals
// can be defined in any order.
func (d *decoder) answersFor(b *principalHCL, all []principal.Block) {
	i := slices.IndexFunc(all, func(p principal.Block) bool { return p.Name == b.Name })
	if i < 0 || !given(b.AnswersFor) {
		return
	}
	all[i].AnswersFor = d.texts(b.AnswersFor)
	known := slices.Clone(ReservedPrincipals[:2])
	for _, p := range all {
		known = append(known, p.Name)
	}
	for _, name := range all[i].AnswersFor {
		if !slices.Contains(known, name) {
			d.fail(b.AnswersFor.Range(), fmt.Sprintf("There is no principal %q", name), "There are %s.%s", strings.Join(known, ", "), suggest.DidYouMean(name, known))
		}
	}
	if !all[i].Has(principal.Answer) {
		d.fail(b.AnswersFor.Range(), fmt.Sprintf("Principal %q cannot answer", b.Name), "Give it the right: role = \"approver\", or \"answer\" in rights.")
	}
}

// keepPosition saves where a list of names is in the file. The list belongs to a block of the given type and name.
func (d *decoder) keepPosition(block, name string, e hcl.Expression) {
	if d.cfg.lists == nil {
		d.cfg.lists = make(map[string]position)
	}
	d.cfg.lists[block+" "+name] = e.Range()
}
