package wiretest

import (
	"fmt"
	"slices"
	"strings"
)

// Differences are those between the rules and a published schema: methods that one of the two has,
// and members. Tasks are left out, which this project does not speak.
func Differences(s *Schema) (found []string) {
	r := rules{revision: s.revision}
	for _, notification := range []bool{false, true} {
		for _, from := range []From{Client, Server} {
			published := s.requests[from]
			if notification {
				published = s.notifications[from]
			}
			for method, name := range published {
				known, ok := r.shapeOf(from, method, notification)
				if strings.Contains(method, "tasks/") {
					continue
				}
				if !ok {
					found = append(found, fmt.Sprintf("%s from the %s is not known", method, from))
					continue
				}
				found = append(found, s.compare(method+" params", r.members(known.params),
					s.properties(s.defs[name].Properties["params"]))...)
				if !notification {
					want := r.members(known.result)
					if r.modern() {
						want = append(want, "resultType")
					}
					found = append(found, s.compare(method+" result", want,
						s.properties(s.defs[s.results[method]]))...)
				}
			}
			for _, shape := range shapes() {
				if shape.notification == notification && r.within(shape.since, shape.until) &&
					(shape.from == "" || shape.from == from) && published[shape.method] == "" {
					found = append(found, fmt.Sprintf("%s from the %s is not published",
						shape.method, from))
				}
			}
		}
	}
	return found
}

func (s *Schema) compare(what string, known, published []string) (found []string) {
	for _, name := range known {
		ahead := name == "message" && s.revision == "2024-11-05" // see shapes
		if name != "_meta" && !ahead && !slices.Contains(published, name) {
			found = append(found, what+": "+name+" is not published")
		}
	}
	for _, name := range published {
		if name != "task" && !slices.Contains(known, name) {
			found = append(found, what+": "+name+" is not known")
		}
	}
	return found
}

// properties are those of a definition and of all that it is made of.
func (s *Schema) properties(d definition) (names []string) {
	if d.Ref != "" {
		return s.properties(s.defs[strings.TrimPrefix(d.Ref, s.refs)])
	}
	for name := range d.Properties {
		names = append(names, name)
	}
	for _, part := range slices.Concat(d.AnyOf, d.AllOf) {
		names = append(names, s.properties(part)...)
	}
	return names
}
