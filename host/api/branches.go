package api

import (
	"errors"
	"net/http"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// branchDiff is the maximum size of a diff, in bytes. Deleted and replaced paths are always listed.
const branchDiff = 256 << 10

// branchRequest returns a request for the branch that the HTTP path names. The parameter "workspace" selects the
// workspace. Without it, the default workspace of all calls applies.
func (s *server) branchRequest(r *http.Request) host.Request {
	req := s.opts.Request
	req.Principal, req.Branch = Principal(r.Context()), r.PathValue("name")
	if w := r.URL.Query().Get("workspace"); w != "" {
		req.Workspace = w
	}
	return req
}

func (s *server) branch(w http.ResponseWriter, r *http.Request) {
	req := s.branchRequest(r)
	changes, diff, err := s.host.BranchChanges(req, branchDiff)
	if err != nil {
		refuseBranch(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"branch": req.Branch, "changes": changes, "diff": diff})
}

// branchBody is the body of an apply.
type branchBody struct {
	Paths  []string `json:"paths"`
	Ours   []string `json:"ours"`
	Theirs []string `json:"theirs"`
	// StopJobs ends the jobs that run in the branch. Without StopJobs, a running job makes the apply fail.
	StopJobs bool `json:"stop_jobs"`
}

// branchForm is the form of a [branchBody].
const branchForm = `{"paths": […], "ours": […], "theirs": […], "stop_jobs": true}, or nothing for all changes`

func (s *server) applyBranch(w http.ResponseWriter, r *http.Request) {
	var body branchBody
	if !decode(w, r, &body, branchForm) {
		return
	}
	req := s.branchRequest(r)
	out, err := s.host.ApplyBranch(r.Context(), req, host.BranchSelection{
		Paths: body.Paths, Ours: body.Ours, Theirs: body.Theirs, StopJobs: body.StopJobs,
		Asks: s.asks.Client(req.Principal),
	})
	if err != nil {
		refuseBranch(w, err)
		return
	}
	reply(w, http.StatusOK, out)
}

func (s *server) discardBranch(w http.ResponseWriter, r *http.Request) {
	req := s.branchRequest(r)
	if err := s.host.DiscardBranch(r.Context(), req); err != nil {
		refuseBranch(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"discarded": req.Branch})
}

// refuseBranch answers a request that failed. A failed apply has changed nothing.
func refuseBranch(w http.ResponseWriter, err error) {
	var missing *host.BranchNotFoundError
	var conflict *host.BranchConflictError
	var changed *host.BranchChangedError
	var held *host.BranchHeldError
	var unasked *host.BranchUnaskedError
	switch e := tool.AsError(err); {
	case errors.As(err, &missing), e.Kind == tool.NotFound:
		refuse(w, http.StatusNotFound, tool.NotFound, err.Error())
	case errors.As(err, &conflict), errors.As(err, &changed):
		refuse(w, http.StatusConflict, tool.Conflict, err.Error())
	case errors.As(err, &held), errors.As(err, &unasked):
		refuse(w, http.StatusForbidden, tool.PermissionDenied, err.Error())
	case e.Kind == tool.PermissionDenied:
		refuse(w, http.StatusForbidden, e.Kind, e.Message)
	case e.Kind == tool.InvalidArguments:
		refuse(w, http.StatusBadRequest, e.Kind, e.Message)
	default:
		refuse(w, http.StatusConflict, tool.Unavailable, err.Error())
	}
}
