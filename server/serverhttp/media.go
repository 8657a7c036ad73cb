package serverhttp

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

func (rw *responseWriter) checkMedia(header http.Header) *fault {
	if !isJSON(header["Content-Type"]) {
		return &fault{status: http.StatusUnsupportedMediaType, reason: words.RefusedMediaType,
			err: protocol.Errorf(protocol.CodeInvalidRequest,
				"Content-Type header must be %s, in UTF-8", typeJSON)}
	}
	for _, coding := range header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return &fault{status: http.StatusUnsupportedMediaType,
				reason: words.RefusedMediaType, header: "Accept-Encoding", value: "identity",
				err: protocol.Errorf(protocol.CodeInvalidRequest,
					"Content-Encoding header must be identity or absent")}
		}
	}
	json, events := acceptedForms(header["Accept"])
	rw.jsonOnly, rw.eventsOnly = json && !events, events && !json
	if !json && !events {
		return notAcceptable(protocol.ID{}, typeJSON+" or "+typeEvents)
	}
	return nil
}

func notAcceptable(id protocol.ID, types string) *fault {
	return &fault{status: http.StatusNotAcceptable, reason: words.RefusedAccept, id: id,
		err: protocol.Errorf(protocol.CodeInvalidRequest, "Accept header must admit %s", types)}
}

// isJSON reports whether a Content-Type is JSON in UTF-8 (RFC 8259).
func isJSON(lines []string) bool {
	if len(lines) != 1 {
		return false
	}
	if lines[0] == typeJSON {
		return true
	}
	media, params, err := mime.ParseMediaType(lines[0])
	if err != nil || media != typeJSON {
		return false
	}
	charset, given := params["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}

// acceptedForms reports which forms an Accept header admits. The specification requires both, but
// clients that list one form get it. Without the header, any form is accepted (RFC 9110, 12.5.1).
func acceptedForms(lines []string) (json, events bool) {
	if len(lines) == 0 || (len(lines) == 1 && lines[0] == typeJSON+", "+typeEvents) {
		return true, true
	}
	var j, e preference
	for _, line := range lines {
		for element := range listElements(line) {
			media, params, err := mime.ParseMediaType(element)
			if err != nil {
				continue // invalid ranges admit nothing
			}
			weight := parseQuality(params)
			j.addMatch(typeJSON, media, weight)
			e.addMatch(typeEvents, media, weight)
		}
	}
	return j.weight > 0, e.weight > 0
}

// A preference is the most specific range for one media type.
type preference struct {
	specificity int
	weight      float64
}

func (p *preference) addMatch(media, accepted string, weight float64) {
	specificity := 0
	main, _, _ := strings.Cut(media, "/")
	switch accepted {
	case media:
		specificity = 3
	case main + "/*":
		specificity = 2
	case "*/*":
		specificity = 1
	}
	if specificity > p.specificity {
		*p = preference{specificity, weight}
	}
}

func parseQuality(params map[string]string) float64 {
	q, given := params["q"]
	if !given {
		return 1
	}
	weight, err := strconv.ParseFloat(q, 64)
	if err != nil || !(weight >= 0 && weight <= 1) {
		return 0
	}
	return weight
}

// listElements yields the elements of a comma-separated list with quoted strings.
func listElements(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i <= len(list); i++ {
			switch {
			case i == len(list) || (list[i] == ',' && !quoted):
				if element := strings.Trim(list[start:i], " \t"); element != "" && !yield(element) {
					return
				}
				start = i + 1
			case list[i] == '"':
				quoted = !quoted
			case list[i] == '\\' && quoted:
				i++
			}
		}
	}
}
