package fetch

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// baseOf returns the base address of the links in a page: the address in its first base element, or the page's own
// address.
func baseOf(root *html.Node, address string) string {
	n := find(root, func(n *html.Node) bool { return n.DataAtom == atom.Base && attribute(n, "href") != "" })
	if n == nil {
		return address
	}
	page, err := url.Parse(address)
	if err != nil {
		return address
	}
	base, err := page.Parse(strings.TrimSpace(attribute(n, "href")))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" {
		return address
	}
	return base.String()
}

// readable changes a page to what a reader of it sees: it removes hidden elements and links that run scripts. For
// Markdown, it turns blocks in the cells of tables into lines.
func readable(root *html.Node, format string) {
	var remove []*html.Node
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if isHidden(n) {
			remove = append(remove, n)
		}
		if runsScript(attribute(n, "href")) || runsScript(attribute(n, "src")) {
			if alt := attribute(n, "alt"); alt != "" {
				n.AppendChild(&html.Node{Type: html.TextNode, Data: alt})
			}
			n.DataAtom, n.Data, n.Attr = atom.Span, "span", nil
		}
	}
	for _, n := range remove {
		if n.Parent != nil && n.Parent.Type != html.DocumentNode {
			n.Parent.RemoveChild(n)
		}
	}
	for n := range root.Descendants() {
		if format == formatMarkdown && (n.DataAtom == atom.Td || n.DataAtom == atom.Th) &&
			find(n, func(c *html.Node) bool { return c.DataAtom == atom.Table }) == nil {
			flatten(n)
		}
	}
}

// hiding matches styles with which an element is not displayed.
var hiding = regexp.MustCompile(`(?i)(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*\.?0+|font-size\s*:\s*0*\.?0+[a-z%]*)\s*(?:!\s*important\s*)?(?:;|$)`)

// isHidden reports whether a browser does not display an element. A style sheet can hide more elements.
func isHidden(n *html.Node) bool {
	closed := n.DataAtom == atom.Dialog
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			if !strings.EqualFold(a.Val, "until-found") {
				return true
			}
		case "open":
			closed = false
		case "style":
			if hiding.MatchString(a.Val) {
				return true
			}
		}
	}
	return closed
}

// runsScript reports whether a link is no address but code or data. A browser ignores white space and control
// characters in the scheme.
func runsScript(link string) bool {
	scheme, _, found := strings.Cut(strings.Map(func(r rune) rune {
		if r <= ' ' {
			return -1
		}
		return r
	}, link), ":")
	return found && slices.Contains([]string{"javascript", "vbscript", "data"}, strings.ToLower(scheme))
}

// flatten replaces the blocks in the cell of a table by lines, because a cell of Markdown is one line. The converter
// writes line breaks in cells as <br />.
func flatten(cell *html.Node) {
	for n := cell.FirstChild; n != nil; {
		next := n.NextSibling
		if n.Type == html.ElementNode {
			flatten(n)
			line := slices.Contains(blocks, n.DataAtom)
			switch n.DataAtom {
			case atom.Ul, atom.Ol:
				number := 0
				for li := range n.ChildNodes() {
					if li.Data == "li-line" {
						number++
						li.InsertBefore(&html.Node{Type: html.TextNode, Data: mark(n, number)}, li.FirstChild)
					}
				}
				replace(n, "span")
			case atom.Li:
				replace(n, "li-line")
			case atom.Pre:
				lines(n)
				replace(n, "span")
			case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
				replace(n, "strong")
			case atom.Hr:
				replace(n, "br")
				line = false
			default:
				if line {
					replace(n, "span")
				}
			}
			if line {
				apart(n)
			}
		}
		n = next
	}
}

// replace changes the name of an element.
func replace(n *html.Node, name string) {
	n.Data, n.DataAtom, n.Attr = name, atom.Lookup([]byte(name)), nil
}

// apart puts a line break between a node and the content before and after it.
func apart(n *html.Node) {
	content := func(n *html.Node) bool { return n.Type != html.TextNode || strings.TrimSpace(n.Data) != "" }
	before, after := n.PrevSibling, n.NextSibling
	for before != nil && !content(before) {
		before = before.PrevSibling
	}
	for after != nil && !content(after) {
		after = after.NextSibling
	}
	if before != nil && before.DataAtom != atom.Br {
		n.Parent.InsertBefore(newBreak(), n)
	}
	if after != nil && after.DataAtom != atom.Br {
		n.Parent.InsertBefore(newBreak(), n.NextSibling)
	}
}

func newBreak() *html.Node { return &html.Node{Type: html.ElementNode, DataAtom: atom.Br, Data: "br"} }

// mark returns the text in front of an element of a list.
func mark(list *html.Node, number int) string {
	if list.DataAtom == atom.Ol {
		return fmt.Sprintf("%d. ", number)
	}
	return "• "
}

// lines replaces the line breaks in the text of a node by elements.
func lines(n *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type != html.TextNode {
			lines(c)
			c = next
			continue
		}
		for i, line := range strings.Split(strings.Trim(c.Data, "\n"), "\n") {
			if i > 0 {
				n.InsertBefore(newBreak(), c)
			}
			n.InsertBefore(&html.Node{Type: html.TextNode, Data: line}, c)
		}
		n.RemoveChild(c)
		c = next
	}
}
