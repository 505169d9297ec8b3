package conformance

import (
	"encoding/xml"
	"strings"
)

// JUnit returns the report in the XML format of JUnit, which CI systems read.
func (r *Report) JUnit() ([]byte, error) {
	type message struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Seconds float64  `xml:"time,attr"`
		Failure *message `xml:"failure,omitempty"`
		Skipped *message `xml:"skipped,omitempty"`
		Out     string   `xml:"system-out,omitempty"`
	}
	suite := struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Seconds  float64    `xml:"time,attr"`
		Cases    []testCase `xml:"testcase"`
		Out      string     `xml:"system-out,omitempty"`
	}{Name: "toolhost plugin " + r.Name, Tests: len(r.Checks), Out: strings.Join(r.LeftOut, "\n")}
	for _, c := range r.Checks {
		t := testCase{Class: "conformance", Name: c.ID, Seconds: c.Seconds}
		text := strings.Join(c.Problems, "\n")
		switch c.Status {
		case Failed:
			suite.Failures++
			t.Failure = &message{Message: c.Title,
				Text: text + "\nTo do: " + c.Fix + "\nSee the section " + c.Section + " of docs/protocol.md."}
		case Skipped:
			suite.Skipped++
			t.Skipped = &message{Message: text}
		default:
			t.Out = text
		}
		suite.Seconds += c.Seconds
		suite.Cases = append(suite.Cases, t)
	}
	b, err := xml.MarshalIndent(suite, "", "  ")
	return append([]byte(xml.Header), append(b, '\n')...), err
}
