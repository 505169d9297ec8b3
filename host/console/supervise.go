package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

type rolloutsData struct {
	Rollouts []host.RolloutStatus
	Quotas   []host.QuotaStatus
}

func loadRollouts(ctx context.Context, c *Console, s *session, v *view) error {
	var st host.Status
	if err := c.get(ctx, s.principal, "/v1/status", &st); err != nil {
		return err
	}
	v.Data, v.Alarms = rolloutsData{st.Rollouts, st.Quotas}, st.Signals.Alarms
	return nil
}

func (c *Console) actOnRollout(r *http.Request, s *session) (string, error) {
	return "/rollouts", c.send(r.Context(), s.principal, http.MethodPost,
		"/v1/rollouts/"+url.PathEscape(r.PathValue("plugin"))+"/"+url.PathEscape(r.PostFormValue("action")), nil, nil)
}

// branchView is a branch with its changes, in the format of the HTTP interface.
type branchView struct {
	host.BranchInfo
	Changes []host.BranchChange `json:"changes"`
	Diff    string              `json:"diff"`
}

type branchesData struct {
	List []host.BranchInfo
	One  *branchView
}

func loadBranches(ctx context.Context, c *Console, s *session, v *view) error {
	var data branchesData
	if id := v.Query.Get("id"); id != "" {
		data.One = new(branchView)
		if err := c.get(ctx, s.principal, "/v1/branches/"+url.PathEscape(id), data.One); err != nil {
			return err
		}
		v.Title = "Branch " + data.One.Name
	} else if err := c.get(ctx, s.principal, "/v1/branches", &data.List); err != nil {
		return err
	}
	v.Data = data
	return nil
}

func (c *Console) actOnBranch(r *http.Request, s *session) (string, error) {
	action := "apply"
	if r.PostFormValue("action") == "discard" {
		action = "discard"
	}
	return "/branches", c.send(r.Context(), s.principal, http.MethodPost,
		"/v1/branches/"+url.PathEscape(r.PathValue("id"))+"/"+action, nil, nil)
}

// pinPlugin pins or approves a plugin.
func (c *Console) pinPlugin(r *http.Request, s *session) (string, error) {
	action := "pin"
	if r.PostFormValue("action") == "approve" {
		action = "approve"
	}
	var out host.Reload
	body := map[string]any{"accept_changes": r.PostFormValue("accept") == "1"}
	if err := c.send(r.Context(), s.principal, http.MethodPost,
		"/v1/plugins/"+url.PathEscape(r.PostFormValue("plugin"))+"/"+action, body, &out); err != nil {
		return "", err
	}
	return "/tools", refusals(&out)
}

// run calls a tool in a session of the person who is logged in.
func (c *Console) run(ctx context.Context, s *session, id, workspace, name string,
	arguments map[string]any) (*tool.Result, error) {
	request := map[string]any{"name": name, "arguments": arguments, "workspace": workspace}
	if !strings.HasPrefix(id, "workspace:") {
		request["session"] = id
	}
	res := new(tool.Result)
	if err := c.send(ctx, s.principal, http.MethodPost, "/v1/run", request, res); err != nil {
		return nil, err
	}
	if res.Error != nil {
		return nil, errors.New(res.Error.Message)
	}
	return res, nil
}

// runRole calls the tool with a role in a session of the person who is logged in.
func (c *Console) runRole(ctx context.Context, s *session, id, workspace string, role tool.Role,
	arguments map[string]any) (*tool.Result, error) {
	var tools []host.Tool
	if err := c.get(ctx, s.principal, "/v1/tools", &tools); err != nil {
		return nil, err
	}
	for i := range tools {
		if t := &tools[i]; t.Namespace == "" && t.Role == role {
			return c.run(ctx, s, id, workspace, t.FullName, arguments)
		}
	}
	return nil, fmt.Errorf("no tool has the role %s; configure a plugin with such a tool", role)
}

// job is a background job, or a command for which a call still waits.
type job struct {
	ID         string `json:"id"`
	Command    string `json:"command"`
	Running    bool   `json:"running"`
	Foreground bool   `json:"foreground"`
}

func (c *Console) jobs(ctx context.Context, s *session, id, workspace string) ([]job, error) {
	res, err := c.runRole(ctx, s, id, workspace, tool.RoleJobs, map[string]any{"action": tool.ActionList})
	if err != nil {
		return nil, err
	}
	var data struct {
		Jobs []job `json:"jobs"`
	}
	return data.Jobs, json.Unmarshal(res.Data, &data)
}

// background sends the running commands of a session to the background. Their calls return, and the commands
// continue as jobs.
func (c *Console) background(r *http.Request, s *session) (string, error) {
	id, workspace := r.PostFormValue("session"), r.PostFormValue("workspace")
	list, err := c.jobs(r.Context(), s, id, workspace)
	if err != nil {
		return "", err
	}
	moved := 0
	for _, j := range list {
		if j.Foreground && j.Running {
			if _, err := c.runRole(r.Context(), s, id, workspace, tool.RoleJobs,
				map[string]any{"action": "background", "id": j.ID}); err != nil {
				return "", err
			}
			moved++
		}
	}
	if moved == 0 {
		return "", errors.New("no command of this session can be sent to the background; only commands of the shell can continue as jobs")
	}
	return back(r, "/"), nil
}

// endSession cancels the calls of a session and kills its jobs. It keeps the state of the session.
func (c *Console) endSession(r *http.Request, s *session) (string, error) {
	id, workspace := r.PostFormValue("id"), r.PostFormValue("workspace")
	var active struct {
		Calls []host.ActiveCall `json:"calls"`
	}
	if err := c.get(r.Context(), s.principal, "/v1/calls?limit=1000", &active); err != nil {
		return "", err
	}
	var errs []error
	for _, call := range active.Calls {
		if call.Session == id {
			errs = append(errs, c.send(r.Context(), s.principal, http.MethodPost,
				fmt.Sprintf("/v1/calls/%d/cancel", call.ID), nil, nil))
		}
	}
	list, err := c.jobs(r.Context(), s, id, workspace)
	errs = append(errs, err)
	for _, j := range list {
		if !j.Running {
			continue
		}
		if _, err := c.runRole(r.Context(), s, id, workspace, tool.RoleJobs,
			map[string]any{"action": "kill", "id": j.ID}); err != nil {
			errs = append(errs, fmt.Errorf("job %s: %w", cmp.Or(j.Command, j.ID), err))
		}
	}
	return "/sessions?id=" + url.QueryEscape(id), errors.Join(errs...)
}
