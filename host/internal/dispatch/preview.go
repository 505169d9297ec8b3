package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/claim"
	"toolhost.dev/host/internal/policy"
)

// previewer is the client of a call while the policy decides. If a permission request must show a diff, previewer first
// runs the call in a preview and then asks the person. If the person accepts the preview, previewer applies it. The
// result of the preview is then the result of the call.
type previewer struct {
	call.Client
	permissions *Permissions
	call        *Call
	run         Handler // the stages after the policy

	ran     bool         // whether the call ran in a preview
	stopped bool         // whether nobody could answer, because the host stops
	result  *tool.Result // the result of an accepted preview; nil if the call still has to run
}

// These are keys of [tool.Permission.Metadata] in a permission request with a diff.
const (
	metadataDiff    = "diff"
	metadataChanges = "changes"
	metadataPreview = "preview"
)

// previewed explains a diff to the person who is asked.
const previewed = "The command already ran, but on a copy of the files. If you allow it, exactly these changes are made; otherwise none. Only files of the workspace are held back: what the command did in the network, to other processes or in /tmp is done and cannot be undone."

// Ask implements [policy.Asker].
func (p *previewer) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	a, err := p.ask(ctx, ask)
	p.stopped = errors.Is(err, call.ErrStopped)
	return a, err
}

func (p *previewer) ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if c, ok := p.Client.(*isolated); ok && c.accepts(ask) {
		return c.Ask(ctx, ask)
	}
	if p.call.Identity.Depth > 0 || !p.call.Identity.Tool.Has(tool.RoleShell) || ask.Permission == nil ||
		ask.Permission.Metadata[policy.ShowDiff] != true || p.Decided() {
		return p.person(ctx, ask)
	}
	permission := *ask.Permission
	ask.Permission, permission.Metadata = &permission, maps.Clone(permission.Metadata)
	preview, err := p.permissions.Host.Preview(p.call.Request.Session)
	if err != nil {
		permission.Metadata[metadataPreview] = fmt.Sprintf("No diff can be shown: %v.", err)
		return p.person(ctx, ask)
	}
	defer preview.Drop()
	if top := p.call.Request.Session.Top(); preview.Session().Top() != top &&
		strings.Contains(string(p.call.Decision.Arguments["command"]), top) {
		permission.Metadata[metadataPreview] = fmt.Sprintf("No diff can be shown: the command names %s, and a preview here is a copy of the files in another directory.", top)
		return p.person(ctx, ask)
	}
	p.ran = true
	var saved deferred
	res, accepted := p.runIn(ctx, preview, &saved)
	if err := ctx.Err(); err != nil {
		return tool.Answer{}, err
	}
	shown, err := preview.End()
	if err != nil {
		permission.Metadata[metadataPreview] = fmt.Sprintf("No diff can be shown, although the command already ran on a copy of the files: %v. If you allow it, it runs again.", err)
		return p.person(ctx, ask)
	}
	for _, subject := range accepted {
		if !slices.Contains(permission.Patterns, subject) {
			permission.Patterns = append(permission.Patterns, subject)
		}
	}
	permission.Metadata[metadataPreview], permission.Metadata[metadataDiff], permission.Metadata[metadataChanges] =
		previewed, shown.Diff, shown.Changes
	if res.Error != nil {
		permission.Metadata["error"] = res.Error.Message
	}
	answer, err := p.person(ctx, ask)
	if err != nil || answer.Outcome != tool.Accepted || len(answer.Values) > 0 && answer.Values[0] == policy.Never {
		return answer, err
	}
	p.accept(preview, shown, res, &saved)
	return answer, nil
}

// person asks the person. If nobody may come back with the answer, the call has no turn meanwhile.
func (p *previewer) person(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if p.call.Park == nil || !p.Parks() {
		return p.Client.Ask(ctx, ask)
	}
	back := p.call.Park()
	a, err := p.Client.Ask(ctx, ask)
	if err != nil || a.Outcome != tool.Accepted { // the call needs no turn any more
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_ = back(ended) // the error is that of ended
		return a, err
	}
	return a, back(ctx)
}

// accept applies a preview. If the preview cannot be applied, the call fails and the preview is kept.
func (p *previewer) accept(preview call.Preview, shown call.Shown, res *tool.Result, saved *deferred) {
	all, err := preview.Apply(p.call.Request.ID,
		claim.Label(p.permissions.State.MaskCommand, p.call.Identity.Tool.FullName(), claim.Subject(p.call)))
	if err != nil {
		p.result = call.Refused(tool.Errorf(tool.Conflict, "The call was allowed, but its changes could not be made: %w. Run it again.", err))
		return
	}
	saved.save()
	if changed := p.call.Request.Changed; changed != nil {
		changed()
	}
	call.NotePreviewed(res, shown.Changes, all)
	p.result = res
}

// runIn runs the call in a preview. It also returns the subjects of permission requests that the answer about the
// preview also answers.
func (p *previewer) runIn(ctx context.Context, preview call.Preview, saved *deferred) (*tool.Result, []string) {
	session := preview.Session()
	session.Later = saved.add
	client := &previewClient{Client: p.Client}
	c := &Call{Request: p.call.Request, Identity: p.call.Identity, Client: client, Shown: client}
	c.Request.Session, c.Request.Changed = session, nil
	c.Identity.Lease, c.Identity.Standby = borrowed{p.call.Identity.Lease}, nil
	defer c.Release()
	if session.Prepare != nil {
		if err := session.Prepare(); err != nil {
			return call.Refused(err), nil
		}
	}
	c.Decision.Arguments = p.call.Decision.Arguments
	c.Decision.Sent = c.Message()
	gate(c)
	q := question(c, p.permissions.Policy, p.permissions.State)
	c.Decision.Policy = p.permissions.Policy.Judge(q)
	if len(c.Decision.Policy.Rewritten) > 0 || c.Decision.Policy.Pinned {
		c.Decision.Arguments, c.Decision.Sent.Arguments = q.Args, call.Object(q.Args)
	}
	res := p.run(ctx, c)
	p.call.Outcome = c.Outcome
	return res, client.subjects()
}

// borrowed is the lease of another call. Its method Release does nothing, because the other call releases the lease.
type borrowed struct{ call.Lease }

// Release does nothing.
func (borrowed) Release() {}

// deferred collects the changes of a session while a call runs in a preview. They are saved only if the preview is
// accepted.
type deferred struct {
	mu  sync.Mutex
	all []func()
}

func (s *deferred) add(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, f)
}

func (s *deferred) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.all {
		f()
	}
}

// previewClient is the client of a call in a preview. It discards the output of the call. It accepts permission
// requests about changes of files, because the person sees these changes in the diff afterwards.
type previewClient struct {
	call.Client
	mu       sync.Mutex
	accepted []string
}

// Output implements [call.Client].
func (*previewClient) Output(tool.Stream, []byte) {}

// Ask implements [call.Client].
func (c *previewClient) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if ask.Permission == nil || ask.Permission.Metadata[policy.ShowDiff] != true {
		return c.Client.Ask(ctx, ask)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = append(c.accepted, ask.Permission.Patterns...)
	return tool.Answer{Outcome: tool.Accepted, By: "the answer about the preview"}, nil
}

// Decided returns true, so that a call in a preview does not begin a second preview.
func (*previewClient) Decided() bool { return true }

func (c *previewClient) subjects() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted
}

// isolated is the client of a call that can lose no file of the workspace, because it runs in a branch. It accepts the
// permission requests about lost files, and records that somebody must confirm the apply of the branch.
type isolated struct {
	call.Client
	unasked  func() error
	accepted atomic.Bool
}

// Ask implements [call.Client].
func (c *isolated) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if !c.accepts(ask) {
		return c.Client.Ask(ctx, ask)
	}
	if err := c.unasked(); err != nil {
		return tool.Answer{}, err
	}
	c.accepted.Store(true)
	return tool.Answer{Outcome: tool.Accepted}, nil
}

// accepts reports whether an ask is a permission request about lost files.
func (*isolated) accepts(ask tool.Ask) bool {
	return ask.Permission != nil && ask.Permission.Metadata[policy.OnlyFiles] == true
}

// answered returns the text of the audit log for a permission request that the client of a call accepted, or "".
func answered(c *Call) string {
	if client, ok := c.Client.(*isolated); ok && client.accepted.Load() {
		return fmt.Sprintf("at the apply of the branch %s", c.Request.Session.Branch)
	}
	return ""
}
