package mount

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/tool"
)

// TestItems checks the listed prompts, resources and templates. Their texts are cleaned like those of tools. Items with
// unusable names are left out.
func TestItems(t *testing.T) {
	const dirty = "a\x1b[31m\u202eb"
	icons := []mcp.Icon{{Source: "http://10.0.0.1/i.png"}, {Source: "https://x.example/i.png"}, {Source: "file:///etc/passwd"}}
	for _, items := range [][]string{
		definitions(promptItem(&mcp.Prompt{Name: "p", Title: dirty, Description: dirty, Icons: icons, Meta: mcp.Meta{"m": dirty}, Arguments: []*mcp.PromptArgument{{Name: "a", Title: dirty, Description: dirty}}})),
		definitions(resourceItem(&mcp.Resource{URI: "test://r", Name: dirty, Title: dirty, Description: dirty, Icons: icons, Meta: mcp.Meta{"m": dirty}})),
		definitions(templateItem(&mcp.ResourceTemplate{URITemplate: "test://{t}", Name: dirty, Title: dirty, Description: dirty, Icons: icons, Meta: mcp.Meta{"m": dirty}})),
	} {
		if len(items) != 1 {
			t.Fatalf("%d items", len(items))
		}
		if got := items[0]; strings.Contains(got, "u001b") || strings.Contains(got, "\u202e") || !strings.Contains(got, "https://x.example/i.png") || strings.Contains(got, "10.0.0.1") || strings.Contains(got, "passwd") {
			t.Error(got)
		}
	}
	for name, items := range map[string][]string{
		"a prompt with a dirty name":        definitions(promptItem(&mcp.Prompt{Name: dirty})),
		"a prompt with a long name":         definitions(promptItem(&mcp.Prompt{Name: strings.Repeat("n", maxTitle+1)})),
		"a prompt with a dirty argument":    definitions(promptItem(&mcp.Prompt{Name: "p", Arguments: []*mcp.PromptArgument{{Name: dirty}}})),
		"a resource with a dirty URI":       definitions(resourceItem(&mcp.Resource{URI: "test://" + dirty})),
		"a template with a dirty URI":       definitions(templateItem(&mcp.ResourceTemplate{URITemplate: "test://{x}" + dirty})),
		"a resource with a relative URI":    definitions(resourceItem(&mcp.Resource{URI: "r"})),
		"a prompt with a name of two lines": definitions(promptItem(&mcp.Prompt{Name: "p\nq"})),
	} {
		if len(items) != 0 {
			t.Errorf("%s is used: %s", name, items)
		}
	}
}

func definitions(items []tool.Item) (out []string) {
	for _, i := range items {
		out = append(out, string(i.Definition))
	}
	return out
}
