package habit

import (
	"slices"
	"strings"

	"toolhost.dev/host/internal/lazyregexp"
)

// urlRE matches a URL within a text.
var urlRE = lazyregexp.New(`https?://[^\s<>"'` + "`" + `]+`)

// address converts a prompt to a URL. Some agents let a second model read a page; their prompt accompanies the URL or
// contains it. Here the caller reads the page itself, so only the URL is needed.
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
		c.fail("the prompt contains %d URLs; make one call for each, with url", len(found))
	}
}

// rawPage converts the parameter with which other programs request a page without a conversion.
func rawPage(c *call) {
	if raw, ok := c.truth("raw"); ok && raw {
		c.set("format", "html")
	}
}
