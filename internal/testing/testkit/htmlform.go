package testkit

import (
	"html"
	"net/url"
	"regexp"
	"strings"
)

var (
	htmlTag       = regexp.MustCompile(`<(input|select|option|textarea)\b([^>]*)>([^<]*)`)
	htmlAttribute = regexp.MustCompile(`\s([a-z-]+)(?:="([^"]*)")?`)
)

// ReadHTMLForm returns a page's form as sent without changes, and each field's choices, if any.
func ReadHTMLForm(page string) (sent url.Values, choices map[string][]string) {
	sent, choices = url.Values{}, map[string][]string{}
	list := "" // the current select element
	for _, tag := range htmlTag.FindAllStringSubmatch(page, -1) {
		has := map[string]bool{}
		at := map[string]string{}
		for _, a := range htmlAttribute.FindAllStringSubmatch(tag[2], -1) {
			has[a[1]], at[a[1]] = true, html.UnescapeString(a[2])
		}
		name, value := at["name"], at["value"]
		switch {
		case tag[1] == "select":
			list = name
			continue
		case tag[1] == "option":
			name = list
			if choices[name] == nil || has["selected"] { // the first choice is the default
				sent[name] = []string{value}
			}
			choices[name] = append(choices[name], value)
			continue
		case tag[1] == "textarea":
			value = html.UnescapeString(strings.TrimPrefix(tag[3], "\n"))
		case at["type"] == "radio" || at["type"] == "checkbox":
			choices[name] = append(choices[name], value)
			if !has["checked"] {
				continue
			}
		}
		sent.Add(name, value)
	}
	return sent, choices
}
