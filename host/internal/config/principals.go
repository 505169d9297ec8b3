package config

import (
	"fmt"
	"maps"
	"net/url"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/host/internal/principal"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

type principalHCL struct {
	Name   string    `hcl:"name,label"`
	Limits *bodyHCL  `hcl:"limits,block"`
	Rest   hcl.Body  `hcl:",remain"`
	At     hcl.Range `hcl:",def_range"`
}

// principalTable lists the attributes of a principal block, except for its limits.
var principalTable = newTable(
	row("role", custom("string", func(b *principal.Block) *principal.Rights { return &b.Rights },
		func(d *decoder, a *hcl.Attribute, to *principal.Block) {
			to.Rights = principal.Roles[d.choice(a.Expr, "caller", slices.Sorted(maps.Keys(principal.Roles))...)]
		}), compared,
		`"caller"`, "Set of rights: caller (call), viewer (log), approver (log, answer), administrator (log, answer, administer)."),
	row("rights", custom("list(string)", func(b *principal.Block) *principal.Rights { return &b.Rights }, (*decoder).rights), compared, "(those of the role)", "Rights, instead of a role: call, answer, log, administer."),
	row("workspaces", listOf("list(string)", func(b *principal.Block) *[]string { return &b.Workspaces }, (*decoder).workspaces), compared,
		"(the workspace of the host)", `Directories in which its calls may run. "DIR/*" permits each directory directly inside DIR, "*" every directory.`),
	row("tools", ownList(func(b *principal.Block) *[]string { return &b.Tools },
		func(d *decoder, a *hcl.Attribute, to *principal.Block) {
			to.Tools = d.toolGlobs("principal", to.Name, a.Expr)
		}), filter,
		"(all)", `Globs for the full names of the tools that it may call, such as "read" or "jira:*".`),
	row("fields", ownList(func(b *principal.Block) *[]string { return &b.Fields },
		func(d *decoder, a *hcl.Attribute, to *principal.Block) {
			d.keepPosition("fields of principal", to.Name, a.Expr)
			to.Fields = d.texts(a.Expr)
		}), filter,
		"(all, unless tools is set)", "Field namespaces whose tools it may call."),
	row("answers_for", texts(func(b *principal.Block) *[]string { return &b.AnswersFor }), filter, "(all)", "Principals whose permission asks it may answer."),
	row("users", custom("list(string)", func(b *principal.Block) *[]int { return &b.Users }, func(d *decoder, a *hcl.Attribute, to *principal.Block) { to.Users = d.users(a.Expr) }), compared,
		"(none)", "Names or numbers of the users who are this principal on a Unix socket."),
	row("issuer", custom("string", func(b *principal.Block) *string { return &b.Issuer }, (*decoder).issuerOf), compared, "(none)", "Issuer whose tokens are for this principal. Each subject has sessions of its own."),
	row("claims", plain("map(string)", func(b *principal.Block) *map[string]string { return &b.Claims }), compared, "{}", "Values that the claims of a token must have. A claim with a list must contain the value."),
)

// principalLimitsTable lists the attributes of the limits of a principal.
var principalLimitsTable = newTable(
	row("calls", count(func(b *principal.Block) *int { return &b.MaxCalls }, leastOrNoLimit), higher, "(no limit)", "Maximum number of calls at the same time."),
	row("sessions", count(func(b *principal.Block) *int { return &b.MaxSessions }, "At least one session must be possible. Leave it out for no limit."), higher, "(no limit)", "Maximum number of sessions used within a day."),
	row("output", size(func(b *principal.Block) *int64 { return &b.MaxOutput }), higher,
		"(that of the plugin)", `Maximum size of the files with long output that a plugin keeps, such as "200 MiB". A change applies at the next start of the plugin.`),
)

// issuerTable lists the attributes of an issuer block. Package privilege compares issuers as a whole.
var issuerTable = newTable(
	row("url", custom("string", func(i *principal.Issuer) *string { return &i.URL }, (*decoder).issuerURL), compared, "", "Identifier of the provider, as in the claim iss of its tokens.", needed),
	row("audience", plain("string", func(i *principal.Issuer) *string { return &i.Audience }), compared, "(resource)", "Value that the claim aud of each token must contain."),
	row("resource", custom("string", func(i *principal.Issuer) *string { return &i.Resource }, (*decoder).resource), compared,
		"(none)", "URL under which clients reach the server. Clients without a token then learn where to get one (RFC 9728)."),
	row("scopes", custom("list of strings", func(i *principal.Issuer) *string { return &i.Scopes }, (*decoder).scopes), compared, "[]", "Scopes that each token must have."),
	row("client_id", custom("string", func(i *principal.Issuer) *string { return &i.ClientID }, func(d *decoder, a *hcl.Attribute, to *principal.Issuer) { to.ClientID = d.text(a.Expr) }), compared,
		"(none)", "Name of the web console at the provider. With it, people log in to the console there (authorization code with PKCE)."),
	row("client_secret", custom("string", func(i *principal.Issuer) *string { return &i.ClientSecret },
		func(d *decoder, a *hcl.Attribute, to *principal.Issuer) { to.ClientSecret = d.text(a.Expr) }), compared,
		"(none)", "Secret of the web console at the provider. A public client has none.", secret),
)

// ReservedPrincipals lists the names of principals that the host itself creates.
var ReservedPrincipals = []string{"anonymous", "start-token", "approver-token", "unix"}

// principals collects the principals and the issuers.
func (d *decoder) principals(blocks []principalHCL, issuers []namedHCL) {
	out := &d.cfg.Access
	answers := make(map[string]hcl.Range) // positions of answers_for, by the names of the principals
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
			d.fail(b.At, fmt.Sprintf("Principal %q is configured twice", b.Name),
				"Remove one, or give it another name.")
			continue
		case !tool.ValidName(b.Name) || slices.Contains(ReservedPrincipals, b.Name):
			d.fail(b.At, fmt.Sprintf("%q cannot name a principal", b.Name), "Use lower-case letters, digits, '_', '-' and '.', beginning with a letter. These names are taken: %s.", strings.Join(ReservedPrincipals, ", "))
			continue
		}
		block, at := d.principal(b)
		out.Principals, answers[b.Name] = append(out.Principals, block), at["answers_for"]
	}
	for i := range out.Principals {
		d.answersFor(&out.Principals[i], answers[out.Principals[i].Name])
	}
}

func (d *decoder) issuer(b *namedHCL) principal.Issuer {
	out := principal.Issuer{Name: b.Name}
	at := issuerTable.read(d, b.Rest, &out)
	d.require(out.URL, at["url"], b.At, "url", fmt.Sprintf("Issuer %q has no url", b.Name),
		`url = "https://login.example.com"`)
	if _, given := at["audience"]; given || out.Resource == "" {
		d.require(out.Audience, at["audience"], b.At, "audience", fmt.Sprintf("Issuer %q has no audience", b.Name),
			`audience = "toolhost"`)
	}
	if out.ClientSecret != "" && out.ClientID == "" {
		d.fail(at["client_secret"], fmt.Sprintf("Issuer %q has a client_secret and no client_id", b.Name), "Add client_id, the name of the console at the provider.")
	}
	return out
}

func (d *decoder) issuerURL(a *hcl.Attribute, to *principal.Issuer) {
	if to.URL = d.optionalText(a.Expr); to.URL == "" {
		return
	}
	u, err := url.Parse(to.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		d.fail(a.Expr.Range(), fmt.Sprintf("%q cannot be an issuer", to.URL), "Use the https URL that the provider's tokens have in the claim iss.")
	}
}

func (d *decoder) resource(a *hcl.Attribute, to *principal.Issuer) {
	if to.Resource = d.text(a.Expr); !resourceURL(to.Resource) {
		d.fail(a.Expr.Range(), fmt.Sprintf("%q cannot be the resource of issuer %q", to.Resource, to.Name), "Use the https URL under which clients reach this server, for example: https://tools.example.com/mcp.")
	}
}

func (d *decoder) scopes(a *hcl.Attribute, to *principal.Issuer) {
	scopes := d.texts(a.Expr)
	if slices.ContainsFunc(scopes, func(s string) bool { return s == "" || strings.ContainsAny(s, " \t\r\n\"\\") }) {
		d.fail(a.Expr.Range(), fmt.Sprintf("The scopes of issuer %q cannot be used", to.Name), "Write each scope as a text without spaces and quotes.")
	}
	to.Scopes = strings.Join(scopes, " ")
}

// resourceURL reports whether a text can identify a protected resource (RFC 9728, section 1.2).
func resourceURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && u.User == nil && u.Fragment == "" && u.RawQuery == "" &&
		(u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()))
}

func loopback(name string) bool { return name == "localhost" || name == "127.0.0.1" || name == "::1" }

// require reports a problem if a text that a block must contain is empty. The text is at the position at, or nowhere.
func (d *decoder) require(text string, at, block hcl.Range, name, problem, example string) {
	if at == (hcl.Range{}) {
		at = block
	}
	if text == "" && !d.diags.HasErrors() {
		d.fail(at, problem, "Set %s, for example: %s.", name, example)
	}
}

func (d *decoder) principal(b *principalHCL) (out principal.Block, at map[string]hcl.Range) {
	out.Name, out.Rights = b.Name, principal.Call
	at = principalTable.read(d, b.Rest, &out)
	if _, both := at["role"]; both && at["rights"] != (hcl.Range{}) {
		d.fail(at["rights"], "role and rights are the same setting", "Remove one of them.")
	}
	switch {
	case out.Issuer == "" && len(out.Claims) > 0:
		d.fail(b.At, fmt.Sprintf("Principal %q has claims and no issuer", b.Name), "Name the issuer of the tokens: issuer = \"NAME\".")
	case out.Issuer != "" && len(out.Claims) == 0:
		d.fail(b.At, fmt.Sprintf("Principal %q accepts every token of issuer %q", b.Name, out.Issuer), "Say which ones: claims = { sub = \"…\" }, or claims = { groups = \"…\" }.")
	}
	readBlock(d, b.Limits, principalLimitsTable, &out)
	return out, at
}

// issuerOf evaluates the issuer of the tokens of a principal.
func (d *decoder) issuerOf(a *hcl.Attribute, to *principal.Block) {
	to.Issuer = d.text(a.Expr)
	var names []string
	for _, i := range d.cfg.Access.Issuers {
		names = append(names, i.Name)
	}
	if !slices.Contains(names, to.Issuer) {
		d.fail(a.Expr.Range(), fmt.Sprintf("There is no issuer %q", to.Issuer), "Add it: issuer %q { … }.%s", to.Issuer,
			suggest.DidYouMean(to.Issuer, names))
	}
}

func (d *decoder) rights(a *hcl.Attribute, to *principal.Block) {
	rights, unknown := principal.ParseRights(d.texts(a.Expr))
	if unknown != "" {
		names := principal.All.Names()
		d.fail(a.Expr.Range(), fmt.Sprintf("There is no right %q", unknown), "There are %s.%s",
			strings.Join(names, ", "), suggest.DidYouMean(unknown, names))
	}
	to.Rights = rights
}

// workspaces evaluates a list of directories. No directory can be inside another directory. Otherwise a principal that
// writes in the outer directory could replace the inner directory.
func (d *decoder) workspaces(e hcl.Expression) (out []string) {
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
			d.fail(e.Range(), fmt.Sprintf("There is no user %q on this machine", name),
				"Use the name or the number of a user.")
			continue
		}
		out = append(out, id)
	}
	return out
}

// answersFor checks the principals whose asks the principal p answers. Principals can be defined in any order.
func (d *decoder) answersFor(p *principal.Block, at hcl.Range) {
	if at == (hcl.Range{}) {
		return
	}
	d.knownPrincipals(p.AnswersFor, at)
	if !p.Has(principal.Answer) {
		d.fail(at, fmt.Sprintf("Principal %q cannot answer", p.Name), "Give it the right: role = \"approver\", or \"answer\" in rights.")
	}
}

// knownPrincipals reports each name that is not the name of a principal.
func (d *decoder) knownPrincipals(names []string, at hcl.Range) {
	known := slices.Clone(ReservedPrincipals[:2])
	for _, p := range d.cfg.Access.Principals {
		known = append(known, p.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			d.fail(at, fmt.Sprintf("There is no principal %q", name), "There are %s.%s", strings.Join(known, ", "),
				suggest.DidYouMean(name, known))
		}
	}
}

// keepPosition saves where a list of names is in the file. The list belongs to a block of the given type and name.
func (d *decoder) keepPosition(block, name string, e hcl.Expression) {
	if d.cfg.lists == nil {
		d.cfg.lists = make(map[string]position)
	}
	d.cfg.lists[block+" "+name] = e.Range()
}
