package habit

import (
	"regexp"
	"slices"
	"strings"
)

// urlRE matches a URL in a text.
var urlRE = regexp.MustCompile(`https?://[^\s<>"'` + "`" + `]+`)

// address takes a prompt. Some agents ask a second model about a page: their prompt goes with the URL, or contains it.
// The caller reads the page itself, so only the URL is needed.
func address(c *call) {
	prompt, ok := c.text("prompt")
	if _, given := c.args["url"]; !ok || given {
		return
	}
	var found []string
	for _, u := range urlRE.FindAllString(prompt, -1) {
		if u = strings.TrimRight(u, ".,;:!?)]}"); !slices.Contains(found, u) {
			found = append(found, u)
		}
	}
	switch len(found) {
	case 0:
		c.fail("the prompt contains no URL; set url")
	case 1:
		c.set("url", found[0])
	default:
		c.fail("the prompt contains %d URLs; call web_fetch once for each, with url", len(found))
	}
}

// rawPage takes the parameter of other programs for a page without a conversion.
func rawPage(c *call) {
	if raw, ok := c.truth("raw"); ok && raw {
		c.set("format", "html")
	}
}
