package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// back returns the path of the page that contains the form of a request.
func back(r *http.Request, otherwise string) string {
	return safePath(cmp.Or(r.PostFormValue("to"), otherwise))
}

func (c *Console) cancelCall(r *http.Request, s *session) (string, error) {
	return back(r, "/"), c.send(r.Context(), s.principal, http.MethodPost,
		"/v1/calls/"+url.PathEscape(r.PathValue("id"))+"/cancel", nil, nil)
}

// answerAsk answers an ask. For a permission ask, the parameter "answer" is once, session, always or deny. For a
// question, the parameter is answer or deny.
func (c *Console) answerAsk(r *http.Request, s *session) (string, error) {
	body := map[string]any{
		"outcome": tool.Accepted, "digest": r.PostFormValue("digest"), "message": r.PostFormValue("reason"),
	}
	switch button := r.PostFormValue("answer"); button {
	case "deny":
		body["outcome"] = tool.Declined
	case host.ScopeSession, host.ScopeAlways:
		body["values"] = []string{button}
	case "answer":
		values := r.PostForm["value"]
		if text := r.PostFormValue("text"); text != "" {
			values = append(values, text)
		}
		body["values"] = values
	}
	return "/asks", c.send(r.Context(), s.principal, http.MethodPost,
		"/v1/asks/"+url.PathEscape(r.PathValue("id")), body, nil)
}

func (c *Console) switchTool(r *http.Request, s *session) (string, error) {
	what := "disable"
	if r.PostFormValue("on") == "1" {
		what = "enable"
	}
	return "/tools", c.send(r.Context(), s.principal, http.MethodPost,
		"/v1/"+what+"/"+url.PathEscape(r.PathValue("name")), nil, nil)
}

func (c *Console) reloadPlugin(r *http.Request, s *session) (string, error) {
	return "/tools", c.reload(r.Context(), s, map[string]any{"plugins": []string{r.PostFormValue("plugin")}})
}

func (c *Console) reloadConfig(r *http.Request, s *session) (string, error) {
	return "/config", c.reload(r.Context(), s, map[string]any{"approve_privileges": r.PostFormValue("approve") == "1"})
}

// reload reloads the configuration and plugins. If the host refuses a part, the error lists everything that
// was refused.
func (c *Console) reload(ctx context.Context, s *session, body map[string]any) error {
	var out host.Reload
	if err := c.send(ctx, s.principal, http.MethodPost, "/v1/reload", body, &out); err != nil {
		return err
	}
	return refusals(&out)
}

func refusals(out *host.Reload) error {
	var errs []error
	if out.Config.Refused != "" {
		errs = append(errs, fmt.Errorf("the configuration is refused: %s", out.Config.Refused))
	}
	for _, p := range out.Plugins {
		if p.Refused != "" {
			errs = append(errs, fmt.Errorf("plugin %s is refused: %s", p.Name, p.Refused))
		}
	}
	return errors.Join(errs...)
}

func (c *Console) rollback(r *http.Request, s *session) (string, error) {
	id, err := strconv.ParseInt(cmp.Or(r.PostFormValue("id"), "0"), 10, 64)
	if err != nil {
		return "", fmt.Errorf("%q is not an id of the history", r.PostFormValue("id"))
	}
	var out host.RolledBack
	if err := c.send(r.Context(), s.principal, http.MethodPost, "/v1/config/rollback", map[string]any{"id": id},
		&out); err != nil {
		return "", err
	}
	return "/config", refusals(out.Reload)
}
