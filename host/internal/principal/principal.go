// Package principal identifies the caller of a call and its permissions.
//
// A [Principal] is an authenticated caller with its [Grant]. [Directory] authenticates HTTP requests by tokens of the
// store ([Tokens]), by signed tokens of an [Issuer], and by the user of a Unix socket.
//
// [Logins] keeps the operator's logins at remote servers (OAuth 2.1), one for each server. It renews access tokens with
// refresh tokens. A [LoginKeeper] delivers access tokens to the plugins that connect to the servers.
package principal

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rights is a set of rights.
type Rights uint8

// The rights of principals.
const (
	Call       Rights = 1 << iota // run tools
	Answer                        // answer permission requests of other principals
	Log                           // read the status, the statistics and the permission requests
	Administer                    // give answers to permission requests, also for later calls
	All        = Call | Answer | Log | Administer
)

var rightNames = []struct {
	name  string
	right Rights
}{{"call", Call}, {"answer", Answer}, {"log", Log}, {"administer", Administer}}

// Roles maps the name of each role to its rights.
var Roles = map[string]Rights{
	"caller": Call, "viewer": Log, "approver": Log | Answer, "administrator": Log | Answer | Administer,
}

// ParseRights returns the rights with the given names. The result "unknown" is the first name that is not a right.
func ParseRights(names []string) (r Rights, unknown string) {
	for _, name := range names {
		i := slices.IndexFunc(rightNames, func(n struct {
			name  string
			right Rights
		}) bool {
			return n.name == name
		})
		if i < 0 {
			return 0, name
		}
		r |= rightNames[i].right
	}
	return r, ""
}

// Names returns the names of the rights in the set.
func (r Rights) Names() []string {
	names := []string{}
	for _, n := range rightNames {
		if r&n.right != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// Grant contains the permissions of a principal.
type Grant struct {
	Rights Rights
	// Workspaces lists the directories in which calls are allowed to run. "DIR/*" permits each directory directly
	// inside DIR, and "*" permits every directory. An empty list permits only the workspace in which the host was
	// started.
	Workspaces []string
	// Tools contains globs for the full names of tools, such as "read" and "jira:*". A nil list permits all agent
	// tools. If both Tools and Fields are nil, all field tools are also permitted.
	Tools []string
	// Fields lists field namespaces whose tools the principal is allowed to call, in addition to Tools.
	Fields []string
	// AnswersFor lists the principals whose permission requests this principal is allowed to answer. A nil list means
	// all principals.
	AnswersFor []string
	// MaxCalls is the maximum number of concurrent calls. Zero means no limit.
	MaxCalls int
	// MaxSessions limits how many sessions the principal can use within a day. Zero means no limit.
	MaxSessions int
	// MaxOutput is the maximum size of the files with long output that a plugin keeps for the principal, in bytes. Zero
	// means that the plugin chooses the limit.
	MaxOutput int64
}

// Principal is an authenticated caller. A principal does not change. Only functions of this package create principals.
type Principal struct {
	// Name identifies the principal in the audit log, and owns its sessions.
	Name string
	Grant
	// Local means that the principal uses the sessions of the local user, who runs the host. Every other principal has
	// sessions, processes and directories of its own.
	Local bool
	// Interactive marks a client that the local user started, so that the user of the client is the local user. Such a
	// client can answer the permission requests of its own calls.
	Interactive bool

	within *endpoint // nil without an endpoint
}

// endpoint restricts a principal to the tools that a server offers. A nil list of globs permits all tools.
type endpoint struct {
	name  string
	tools []string
}

// Within returns the principal, restricted to certain tools. The restrictions that it has stay. The name describes what
// restricts it, such as "endpoint x". The globs match full names of tools. A nil list adds no restriction.
func (p *Principal) Within(name string, tools []string) *Principal {
	out := *p
	out.within = &endpoint{name: name, tools: tools}
	return &out
}

// Endpoint returns the name of the restriction that excludes a tool; see [Principal.Within]. It is empty if none
// excludes the tool.
func (p *Principal) Endpoint(namespace, name string) string {
	if p.within == nil || p.within.tools == nil || matchesAny(p.within.tools, namespace, name) {
		return ""
	}
	if namespace != "" && slices.Contains(p.within.tools, namespace+":*") { // matches also prompts and resources, whose names contain slashes
		return ""
	}
	return p.within.name
}

// matchesAny reports whether one of the globs matches the full name of a tool.
func matchesAny(globs []string, namespace, name string) bool {
	if namespace != "" {
		name = namespace + ":" + name
	}
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, name)
		return ok && err == nil
	})
}

// LocalUser returns the principal of the user who runs this process. This user has all rights.
func LocalUser() *Principal {
	return &Principal{Name: unixName(os.Getuid()), Grant: Grant{Rights: All, Workspaces: []string{"*"}}, Local: true,
		Interactive: true}
}

// StartToken returns the principal of clients that have the token with which the server was started.
func StartToken(workspaces []string) *Principal {
	grant := new(places).pin(Grant{Rights: Call | Log, Workspaces: workspaces}, nil)
	return &Principal{Name: "start-token", Grant: grant, Local: true, Interactive: true}
}

// ApproverToken returns the principal of clients that have the approver token of the server.
func ApproverToken() *Principal {
	return &Principal{Name: "approver-token", Grant: Grant{Rights: Log | Answer | Administer}}
}

// Anonymous returns the principal of clients that did not authenticate. It can only call tools in the start workspace.
func Anonymous() *Principal { return &Principal{Name: "anonymous", Grant: Grant{Rights: Call}} }

func unixName(uid int) string { return "unix:" + strconv.Itoa(uid) }

// Has reports whether the grant contains all of the given rights.
func (g *Grant) Has(r Rights) bool { return g.Rights&r == r }

// ToolAllowed reports whether the principal is allowed to call a tool, also within its endpoint. The argument
// "namespace" is empty for an agent tool.
func (p *Principal) ToolAllowed(namespace, name string) bool {
	if p.Endpoint(namespace, name) != "" {
		return false
	}
	if matchesAny(p.Tools, namespace, name) {
		return true
	}
	if namespace == "" {
		return p.Tools == nil
	}
	return p.Tools == nil && p.Fields == nil || slices.Contains(p.Fields, namespace)
}

// WorkspaceAllowed reports whether calls of the principal are allowed to run in a directory. The path dir must be
// absolute and without symbolic links. The argument "start" is the workspace in which the host was started. Neither
// start nor the workspaces of the grant are allowed to contain symbolic links.
func (p *Principal) WorkspaceAllowed(dir, start string) bool {
	if len(p.Workspaces) == 0 {
		return same(dir, start)
	}
	return slices.ContainsFunc(p.Workspaces, func(w string) bool {
		parent, children := strings.CutSuffix(w, "/*")
		switch {
		case w == "*":
			return true
		case children && dir == filepath.Dir(dir): // the root directory has no parent
			return false
		case children:
			return same(filepath.Dir(dir), parent+"/")
		}
		return same(dir, w)
	})
}

// same reports whether dir is the permitted directory. It returns false if the path of the permitted
// directory now contains a symbolic link.
func same(dir, permitted string) bool {
	x, err := os.Stat(dir)
	if err != nil {
		return false
	}
	y, err := os.Stat(permitted)
	return err == nil && os.SameFile(x, y) && plain(permitted)
}

// AnyWorkspace reports whether calls of the principal are allowed to run in every directory.
func (p *Principal) AnyWorkspace() bool { return slices.Contains(p.Workspaces, "*") }

// DefaultWorkspace returns the workspace for requests that do not name a workspace.
func (p *Principal) DefaultWorkspace(start string) string {
	if len(p.Workspaces) == 1 && p.Workspaces[0] != "*" && !strings.HasSuffix(p.Workspaces[0], "/*") {
		return p.Workspaces[0]
	}
	return start
}

// MayAnswer reports whether the principal is allowed to answer a permission request of another principal.
func (p *Principal) MayAnswer(asker string) bool {
	return p.Has(Answer) && p.Name != asker &&
		(p.AnswersFor == nil || slices.Contains(p.AnswersFor, asker) || slices.Contains(p.AnswersFor, family(asker)))
}

// Confirms reports whether the principal may apply changes that need an answer to a permission request of another
// principal. The argument is the text of [Principal.Owner] of the other principal.
func (p *Principal) Confirms(owner string) bool {
	if owner == "" {
		return p.Has(Answer) && p.Local || p.MayAnswer(LocalUser().Name)
	}
	name, err := url.QueryUnescape(owner)
	return err == nil && p.MayAnswer(name)
}

// family returns the name of the block to which a principal belongs. The name of an issuer's principal
// consists of the block name, "/" and the subject.
func family(name string) string {
	block, _, _ := strings.Cut(name, "/")
	return block
}

// maxID limits the length of a session id, in bytes.
const maxID = 256

// keyPrefix begins the keys of sessions that do not belong to the local user.
const keyPrefix = "principal:"

// Owner returns a text that identifies the principal in names of directories and in keys. It is empty for the local
// user.
func (p *Principal) Owner() string {
	if p.Local {
		return ""
	}
	return url.QueryEscape(p.Name)
}

// SessionKey returns the key under which the host stores a session of the principal in a workspace. Keys of different
// principals and workspaces are always different. An empty id means the default session of the workspace. SessionKey
// returns an error for an id of the local user that could be the key of another principal.
func (p *Principal) SessionKey(id, workspace string) (string, error) {
	if len(id) > maxID || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return "", fmt.Errorf("the session id is longer than %d bytes, or contains control characters. Use another id", maxID)
	}
	if p.Local {
		if strings.HasPrefix(id, keyPrefix) {
			return "", fmt.Errorf("the session id %q begins with %q, which marks the sessions of other principals. Use another id", id, keyPrefix)
		}
		if id == "" {
			id = "workspace:" + workspace
		}
		return id, nil
	}
	return fmt.Sprintf("%s%s:%d:%s:%s", keyPrefix, p.Owner(), len(workspace), workspace, id), nil
}

// SessionID returns the ID of one of the principal's sessions in a workspace from the session's key, which
// [Principal.SessionKey] returned. The ID of the default session is empty.
func (p *Principal) SessionID(key, workspace string) string {
	if !p.Local {
		return strings.TrimPrefix(key, fmt.Sprintf("%s%d:%s:", p.SessionPrefix(), len(workspace), workspace))
	}
	if key == "workspace:"+workspace {
		return ""
	}
	return key
}

// SessionPrefix returns the text with which the keys of all sessions of the principal begin.
func (p *Principal) SessionPrefix() string { return keyPrefix + p.Owner() + ":" }

// Scope returns the key of data that belongs to the principal and a workspace, such as remembered answers.
func (p *Principal) Scope(workspace string) string {
	if p.Local {
		return workspace
	}
	return p.SessionPrefix() + workspace
}
