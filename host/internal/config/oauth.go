package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"toolhost.dev/host/internal/lazyregexp"
)

// OAuth describes the login at the remote server of a field. With the zero value, the server determines all details.
type OAuth struct {
	// Scopes replaces the scopes that the server requests. Nil means that the server's scopes are used.
	Scopes []string `json:"scopes"`
	// ClientID is the id of an OAuth client that is registered at the server. If it is empty, toolhost registers itself
	// as a client. ClientSecret is the name of the environment variable that contains the client's secret.
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

// variableName matches the name of an environment variable.
var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// oauth reads the "oauth" block of an "mcp" block and removes it from the values for the plugin. The plugin does not
// need it, because the host manages logins.
func (d *decoder) oauth(values map[string]any, ranges bodyRanges, out *Plugin) {
	given, ok := values["oauth"]
	if !ok {
		return
	}
	delete(values, "oauth")
	at := ranges[pathKey([]string{"oauth", "0"})]
	if at.Filename == "" {
		at = ranges[pathKey([]string{"oauth"})]
	}
	where := func(attribute string) (found position) {
		if found = ranges[pathKey([]string{"oauth", "0", attribute})]; found.Filename == "" {
			return at
		}
		return found
	}
	list, isList := given.([]any)
	switch {
	case isList && len(list) > 1:
		d.fail(ranges[pathKey([]string{"oauth", "1"})], fmt.Sprintf("Field %q has several oauth blocks", out.Name),
			"Keep one.")
		return
	case isList:
		given = list[0]
	}
	raw, err := json.Marshal(given)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		err = dec.Decode(&out.OAuth)
	}
	if err != nil {
		d.fail(at, "The oauth block cannot be used", "Its attributes are scopes, a list of texts, and the texts client_id and client_secret: oauth { scopes = [\"repo:read\"] }.")
		return
	}
	_, remote := values["url"]
	switch {
	case !remote:
		d.fail(at, fmt.Sprintf("Field %q has an oauth block and no url", out.Name), "Only remote servers have logins. Add url = \"https://…\", or remove the block.")
	case slices.ContainsFunc(out.OAuth.Scopes,
		func(s string) bool { return s == "" || strings.ContainsAny(s, " \t\r\n\"\\") }):
		d.fail(where("scopes"), "The scopes cannot be used", "Write each scope as a text without spaces and quotes.")
	case out.OAuth.ClientSecret != "" && !variableName.MatchString(out.OAuth.ClientSecret):
		d.fail(where("client_secret"), "This is not the name of a secret", "Write the name of the environment variable with the secret, not the secret: client_secret = \"GITHUB_CLIENT_SECRET\".")
	case out.OAuth.ClientSecret != "" && out.OAuth.ClientID == "":
		d.fail(where("client_secret"), "A client_secret needs a client_id", "Add client_id = \"…\", the id that the authorization server gave to the client.")
	}
}
