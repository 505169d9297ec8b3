package config_test

import (
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
)

// TestMount checks the field blocks of servers. References must become calls of "env", and secrets must not be copied.
func TestMount(t *testing.T) {
	for _, tc := range []struct {
		m       config.Mount
		want    string
		secrets []string
	}{
		{config.Mount{Name: "notes", Command: []string{"node", "${workspaceFolder}/server.js", `a"${b`}, Dir: "${workspaceFolder}"},
			`command = ["node", "${"."}/server.js", "a\"$${b"]`, nil},
		{config.Mount{Name: "a", Command: []string{"x"}, Env: map[string]string{"LEVEL": "debug", "A": "${A}", "B": "${env:B}", "C": "{env:C}", "D": "$D", "E": "${E:-e}", "F": "${input:f-key}", "G": "pre-${G}"}},
			"env = {\n      \"A\"     = env(\"A\", \"\")\n      \"B\"     = env(\"B\", \"\")\n      \"C\"     = env(\"C\", \"\")\n      \"D\"     = env(\"D\", \"\")\n      \"E\"     = env(\"E\", \"e\")\n      \"F\"     = env(\"f_key\", \"\")\n      \"G\"     = \"pre-${env(\"G\", \"\")}\"\n      \"LEVEL\" = \"debug\"", nil},
		{config.Mount{Name: "gh", Command: []string{"npx", "-y", "srv"}, Env: map[string]string{"API_TOKEN": "hunter22"}}, "\"API_TOKEN\" = env(\"API_TOKEN\", \"\")", []string{"API_TOKEN"}},
		{config.Mount{Name: "gh", Command: []string{"npx", "-y", "srv"}}, "network = true # npx downloads the server", nil},
		{config.Mount{Name: "my-srv", Command: []string{"x", "--api-key", "hunter22", "--token=hunter23"}}, `command = ["x", "--api-key", env("MY_SRV_API_KEY", ""), "--token=${env("MY_SRV_TOKEN", "")}"]`, []string{"MY_SRV_API_KEY", "MY_SRV_TOKEN"}},
		{config.Mount{Name: "web", URL: "https://x/mcp", Headers: map[string]string{"Authorization": "Bearer hunter22", "X-Team": "a"}},
			"url = \"https://x/mcp\"\n    headers = {\n      \"Authorization\" = \"Bearer ${env(\"WEB_AUTHORIZATION\", \"\")}\"\n      \"X-Team\"        = \"a\"", []string{"WEB_AUTHORIZATION"}},
		{config.Mount{Name: "m", Command: []string{"x"}, Env: map[string]string{"A_TOKEN": "${A:-x}hunter22", "B_TOKEN": "${B_TOKEN:-hunter23}"}},
			"\"A_TOKEN\" = env(\"A_TOKEN\", \"\")\n      \"B_TOKEN\" = env(\"B_TOKEN\", \"\")", []string{"A_TOKEN"}},
		{config.Mount{Name: "web", URL: "https://x", Headers: map[string]string{"Authorization": "Bearer ${T}"}}, `"Bearer ${env("T", "")}"`, nil},
		{config.Mount{Name: "web", URL: "https://me:hunter22@x/mcp"}, `url = env("WEB_URL", "")`, []string{"WEB_URL"}},
	} {
		text, secrets := tc.m.HCL()
		if !strings.Contains(string(text), tc.want) || !slices.Equal(secrets, tc.secrets) || strings.Contains(string(text), "hunter2") {
			t.Errorf("%+v, %q\n%s\nwant %s", tc.m, secrets, text, tc.want)
		}
		c, err := config.Parse(text, "x.hcl", config.Environment{BundledDir: "/bundled", LookupEnv: func(name string) (string, bool) { return "is " + name, true }})
		if err != nil || c.Plugin(tc.m.Name) == nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	for in, want := range map[string]string{"notes": "notes", "GitHub MCP": "github-mcp", "1st.server": "st.server", "notes2": "notes2", "-a-": "a", "日本": "", "@org/server": "org-server"} {
		if got := config.FieldName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
