package generation_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/quota"
	"toolhost.dev/host/internal/testbuilder"
)

// TestStages checks that a call runs through the stages that ARCHITECTURE.md lists, in this order, and that the stages
// of features that are off are left out.
func TestStages(t *testing.T) {
	text, err := os.ReadFile("../../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile("(?s)\n[^\n]*`stages` in .*?\n## ").Find(text)
	var documented []string
	for _, m := range regexp.MustCompile(`(?m)^\d+\. \*\*(\w+)\*\*`).FindAllSubmatch(section, -1) {
		documented = append(documented, string(m[1]))
	}
	h := testbuilder.New(t, one(t, "", ""))
	g := h.Load(t)
	g.Config.Host.Adaptive = false
	least := h.Stages(g)
	g.Config.Host.Adaptive, g.Config.Quotas = true, quota.Rules{"field:x": {Parallel: 1}}
	g.Hooks = hook.New([]hook.Hook{{Name: "h", On: []tool.HookEvent{tool.HookAfter}}})
	all := h.Stages(g)
	if !slices.Equal(all, documented) {
		t.Errorf("stages are %q, ARCHITECTURE.md lists %q", all, documented)
	}
	missing := slices.DeleteFunc(all, func(s string) bool { return slices.Contains(least, s) })
	if want := []string{"hooks", "quota", "cache"}; !slices.Equal(missing, want) {
		t.Errorf("left out are %q, want %q", missing, want)
	}
}
