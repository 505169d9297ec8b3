package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/host/internal/state"
)

// seat is where a request belongs: its principal, its workspace, its branch, and the key of its session.
type seat struct {
	who              *Principal
	owner, workspace string
	branch, key      string
}

// session returns the session of a request as it is now. It creates a missing session. It does not mount the
// session's branch.
func (e *Engine) session(g *generation.Generation, req Request) (call.Session, error) {
	at, err := e.locate(g, req)
	if err != nil {
		return call.Session{}, err
	}
	s, err := e.open(req, at)
	if err != nil {
		return s, err
	}
	if at.branch != "" {
		s = e.inCopy(s)
	}
	return g.Complete(s, req.Command, req.Arguments), nil
}

// locate returns the seat of a request. It refuses a request for a workspace in which no call may run.
func (e *Engine) locate(g *generation.Generation, req Request) (at seat, err error) {
	if at.who, at.workspace, err = e.place(g, req); err != nil {
		return at, err
	}
	key, badID := at.who.SessionKey(req.Session, at.workspace)
	at.key, at.owner = key, at.who.Owner()
	if err := g.Roots.Refused(at.workspace); err != nil {
		return at, tool.Errorf(tool.PermissionDenied, "%w.", err)
	}
	outside := g.Roots.Outside(at.workspace, func() *roots.Places { return e.places(g.Config) })
	if at.workspace != e.opts.Workspace { // the host's own workspace is checked when the configuration is opened
		outside = errors.Join(outside, e.keepsHostOut(g.Config, at.workspace))
	}
	if err := outside; err != nil {
		return at, tool.Errorf(tool.PermissionDenied, "%w.", err)
	}
	if badID != nil {
		return at, tool.Errorf(tool.InvalidArguments, "%w.", badID)
	}
	if req.Branch != "" || g.Config.Workspace.Mode != "direct" {
		if at.branch, err = e.branchOf(g, req, at); err != nil {
			return at, err
		}
	}
	switch {
	case at.branch != "":
		at.key += "+" + at.branch // a session belongs to one branch
	case strings.Contains(req.Session, "+"):
		at.key = e.withoutBranch(at.owner, at.workspace, at.key, req.Session)
	}
	return at, nil
}

// ownBranch returns the name of the branch that a session gets from the configuration.
func (e *Engine) ownBranch(owner, workspace, session string) string {
	sum := sha256.Sum256([]byte(session))
	name := func(bytes int) string { return "session-" + hex.EncodeToString(sum[:bytes]) }
	// Earlier versions used only a few bytes, so that two sessions could get the same branch. Whoever has used such a
	// branch keeps it.
	if old := name(4); e.branches.Store != nil {
		if b, err := e.branches.Store.Find(owner, workspace, old); err == nil &&
			slices.Contains(b.Sessions, session+"+"+old) {
			return old
		}
	}
	return name(16)
}

// branchOf returns the name of the branch in which a request runs. Empty means the workspace itself.
func (e *Engine) branchOf(g *generation.Generation, req Request, at seat) (string, error) {
	name := req.Branch
	if name == "" {
		switch g.Config.Workspace.Mode {
		case config.ModeBranch:
			name = e.ownBranch(at.owner, at.workspace, at.key)
		case "require":
			return "", tool.Errorf(tool.PermissionDenied, "The configuration requires that every session works in a branch (workspace { mode = \"require\" }), and this call names none. Name one, for example toolhost run --branch NAME, or \"branch\" in the request.")
		}
	}
	if name == "" {
		return "", nil
	}
	if err := branch.CheckName(name); err != nil {
		return "", tool.Errorf(tool.InvalidArguments, "%w.", err)
	}
	if strings.HasPrefix(name, branch.PreviewPrefix) {
		return "", tool.Errorf(tool.InvalidArguments, "%q is the name of a preview, whose content cannot change any more. Use another name, or apply the preview: toolhost branch apply %[1]s.", name)
	}
	if e.branches.Store == nil {
		return "", tool.Errorf(tool.Unavailable, "Branches need a state directory, and this host has none. See the problems in toolhost status.")
	}
	return name, nil
}

// withoutBranch returns the key of a session without a branch. A session whose id ends like the key of a session in a
// branch gets a key of its own, which ends with a plus sign. Earlier versions did not do that. Their sessions keep the
// old key if no session in a branch can have this key.
func (e *Engine) withoutBranch(owner, workspace, key, id string) string {
	ending := strings.TrimRight(id, "+")
	i := strings.LastIndex(ending, "+")
	if i < 0 || branch.CheckName(ending[i+1:]) != nil {
		return key
	}
	own := key + "+"
	if _, known, err := e.state.Session(own); known || err != nil || e.branches.Store == nil {
		return own
	}
	_, err := e.branches.Store.Find(owner, workspace, ending[i+1:])
	missing := (*branch.NotFoundError)(nil)
	if old, known, stateErr := e.state.Session(key); stateErr == nil && known && old.Workspace == workspace &&
		errors.As(err, &missing) {
		return key
	}
	return own
}

// keepsHostOut returns an error if tools of a requested workspace could write files that the host runs or reads. These
// files are the configuration, the programs that the configuration names, code files in the arguments of these
// programs, and the programs of the host.
func (e *Engine) keepsHostOut(cfg *config.Config, workspace string) error {
	if cfg.Sandbox.Workspace == "read-only" {
		return nil
	}
	for _, path := range append(e.reloader.Source.Uses(cfg), e.opts.BundledDir) {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			target = path
		}
		if root := (tool.Root{Path: workspace}); path != "" && (root.Contains(path) || root.Contains(target)) {
			return fmt.Errorf("the workspace %s contains %s, which the host uses, and tools could change it. Use another workspace, or move it elsewhere", workspace, path)
		}
	}
	return nil
}

// place returns the principal and the workspace of a request.
func (e *Engine) place(g *generation.Generation, req Request) (who *Principal, workspace string, err error) {
	if who = req.Principal; who == nil {
		who = e.local
	}
	if req.Endpoint != "" {
		if who, err = e.restricted(g, who, req.Endpoint); err != nil {
			return nil, "", err
		}
	}
	workspace, err = e.workspace(who, req.Workspace)
	return who, workspace, err
}

// clean removes unused temporary directories of sessions and old branches.
func (e *Engine) clean() {
	base, err := e.home.Scratch()
	if err != nil {
		return
	}
	go e.cleanBranches()
	if err := scratch.Clean(base); err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.opts.Log.Warn("unused temporary directories of sessions cannot be removed", "directory", base, "error", err)
	}
}

// workspace returns the directory in which a request runs. If the principal is not allowed to use the
// directory, the error does not reveal whether the directory exists.
func (e *Engine) workspace(who *Principal, named string) (string, error) {
	dir := named
	if named == "" {
		if dir = who.DefaultWorkspace(e.opts.Workspace); dir == e.opts.Workspace && who.AnyWorkspace() {
			return dir, nil
		}
	}
	path, err := roots.Workspace(dir)
	switch {
	case who.AnyWorkspace() && err != nil:
		return "", tool.Errorf(tool.InvalidArguments, "%w. Name an existing directory.", err)
	case err != nil || !who.WorkspaceAllowed(path, e.opts.Workspace):
		return "", because(ReasonWorkspace, tool.Errorf(tool.PermissionDenied, "Principal %q is not allowed to work in %s. Ask the operator to allow the directory: in \"workspaces\" of the principal, or with toolhost serve --allow-workspace if you use the token of the server.", who.Name, dir))
	}
	return path, nil
}

// open loads the stored session of a request, or creates the session. A session belongs to one workspace.
func (e *Engine) open(req Request, at seat) (call.Session, error) {
	e.cleaning.Do(func() { go e.clean() })
	out := call.Session{Principal: at.who, Branch: at.branch}
	found, err := e.load(&out, &at)
	if found || err != nil {
		return out, err
	}
	e.opening.Lock() // concurrent first calls from two workspaces must not create a common session
	defer e.opening.Unlock()
	if found, err := e.load(&out, &at); found || err != nil {
		return out, err
	}
	if at.who.MaxSessions > 0 {
		if err := e.limitSessions(at.who); err != nil {
			return out, err
		}
	}
	if req.From != "" {
		from, err := at.who.SessionKey(req.From, at.workspace)
		if err == nil {
			err = e.state.Fork(e.withoutBranch(at.owner, at.workspace, from, req.From), at.key)
		}
		if err != nil {
			return out, fmt.Errorf("the session %s cannot be copied: %w", req.From, err)
		}
		if found, err := e.load(&out, &at); found || err != nil {
			return out, err
		}
	}
	out.Session = state.Session{ID: at.key, Workspace: at.workspace, Cwd: at.workspace}
	e.state.SaveSession(out.Session)
	return out, nil
}

// load loads a stored session. If the session belongs to another workspace, load replaces the key with the
// key of a separate session for this workspace.
func (e *Engine) load(out *call.Session, at *seat) (found bool, err error) {
	s, known, err := e.state.Session(at.key)
	if err == nil && known && s.Workspace != at.workspace {
		at.key = fmt.Sprintf("%s@%s", at.key, at.workspace)
		s, known, err = e.state.Session(at.key)
	}
	if err != nil {
		return false, fmt.Errorf("the session %s cannot be read: %w", at.key, err)
	}
	if !known || s.Workspace != at.workspace {
		return false, nil
	}
	out.Session = s
	return true, nil
}

// sessionAge is the time after its last use for which a session counts towards the limit of its principal.
const sessionAge = 24 * time.Hour

// limitSessions returns an error if the principal has reached its limit of sessions.
func (e *Engine) limitSessions(who *Principal) error {
	n, err := e.state.CountSessions(who.SessionPrefix(), time.Now().Add(-sessionAge))
	if err != nil {
		return fmt.Errorf("the sessions of %s cannot be counted: %w", who.Name, err)
	}
	if n >= who.MaxSessions {
		return tool.Errorf(tool.Unavailable, "Principal %q used %d sessions within a day, which is its limit. Use one of these sessions, or ask the operator for a higher limit: limits { sessions = … }.", who.Name, n)
	}
	return nil
}

// SessionKey returns the key under which the host stores the session of a request. It creates a missing session.
func (e *Engine) SessionKey(req Request) (string, error) {
	s, err := e.session(e.Current(), req)
	return s.ID, err
}

// Restore replaces the state of a request's session.
func (e *Engine) Restore(req Request, s state.Snapshot) error {
	key, err := e.SessionKey(req)
	if err != nil {
		return err
	}
	s.ID = key
	e.state.Restore(s)
	return nil
}

// History returns the last commands of a request's session, oldest first.
func (e *Engine) History(req Request, limit int) ([]state.Entry, error) {
	s, err := e.session(e.Current(), req)
	if err != nil {
		return nil, err
	}
	return e.state.History(s.ID, limit)
}

// Cwd returns the working directory of a request's session.
func (e *Engine) Cwd(req Request) (string, error) {
	s, err := e.session(e.Current(), req)
	return s.Cwd, err
}

// Principal is an authenticated caller. See package principal.
type Principal = principal.Principal

// Directory authenticates the clients of a server. See package principal.
type Directory = principal.Directory

// Secret is a token that the server received at its start.
type Secret = principal.Secret

// These are names of package principal, for use in package host.
const (
	RightCall       = principal.Call
	RightAnswer     = principal.Answer
	RightLog        = principal.Log
	RightAdminister = principal.Administer
)

// LocalUser returns the principal of the user of this process. See host.LocalUser.
func LocalUser() *Principal { return principal.LocalUser() }

// StartToken returns the principal of clients that present the token of a server. See host.StartToken.
func StartToken(workspaces []string) *Principal { return principal.StartToken(workspaces) }

// ApproverToken returns the principal that answers permission requests. See host.ApproverToken.
func ApproverToken() *Principal { return principal.ApproverToken() }

// ConnContext returns a context for the requests of a connection. See host.ConnContext.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	uid, err := control.PeerUser(socket)
	return principal.WithPeer(ctx, principal.Peer{User: uid, Err: err})
}

// Directory returns a directory with the principals and issuers of the current configuration, and with the tokens of
// the state directory.
func (e *Engine) Directory() *Directory {
	var tokens *principal.Tokens
	if e.home.Root != "" {
		tokens = principal.OpenTokens(e.home.Root)
	}
	return principal.NewDirectory(func() principal.Blocks { return e.Current().Access }, tokens)
}

// Workspace returns the workspace in which the host was started.
func (e *Engine) Workspace() string { return e.opts.Workspace }
