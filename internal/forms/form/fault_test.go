package form_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
)

func TestExplain(t *testing.T) {
	type all struct {
		Amount float64   `json:"amount,omitempty" title:"Amount in euros" minimum:"0.01" maximum:"100"`
		Agree  bool      `json:"agree" title:"I agree"`
		Count  int8      `json:"count,omitempty" minimum:"1"`
		Name   string    `json:"name,omitempty" minLength:"2" maxLength:"4"`
		Mail   string    `json:"mail,omitempty" format:"email"`
		Day    string    `json:"day,omitempty" format:"date"`
		Site   string    `json:"site,omitempty" format:"uri"`
		At     time.Time `json:"at,omitzero"`
		Region string    `json:"region,omitempty" enum:"eu,us" enumTitles:"Europe,America"`
		Tags   []string  `json:"tags,omitempty" enum:"a,b" minItems:"1" maxItems:"1"`
		Wide   uint64    `json:"wide,omitempty"`
	}
	own := derive[all](t)
	peer := func(property string) *form.Form {
		f, err := form.ParsePeer([]byte(object(property)))
		noError(t, err)
		return f
	}
	for _, tt := range []struct {
		form                       *form.Form
		content, field, rule, word string
	}{
		{own, `{"agree":true,"amount":0}`, "amount", form.RuleMinimum, "Amount in euros must be at least 0.01."},
		{own, `{"agree":true,"amount":101}`, "amount", form.RuleMaximum,
			"Amount in euros must be at most 100."},
		{own, `{"agree":true,"amount":"x"}`, "amount", form.RuleType,
			"Amount in euros must be a number."},
		{own, `{}`, "agree", form.RuleRequired, "I agree was not answered: choose yes or no, and decline if you cannot choose no."},
		{own, `{"agree":1}`, "agree", form.RuleType, "I agree must be yes or no."},
		{own, `{"agree":true,"count":1.5}`, "count", form.RuleType,
			"Count must be a whole number."},
		{own, `{"agree":true,"count":0}`, "count", form.RuleMinimum, "Count must be at least 1."},
		{own, `{"agree":true,"name":"a"}`, "name", form.RuleLength,
			"Name must have at least 2 characters."},
		{own, `{"agree":true,"name":"abcde"}`, "name", form.RuleLength,
			"Name must have at most 4 characters."},
		{own, `{"agree":true,"name":1}`, "name", form.RuleType, "Name must be a text."},
		{own, `{"agree":true,"mail":"me"}`, "mail", form.RuleFormat, "Mail must be an email address, such as name@example.com."},
		{own, `{"agree":true,"day":"x"}`, "day", form.RuleFormat, "Day must be a date, such as 2026-01-31."},
		{own, `{"agree":true,"site":"x"}`, "site", form.RuleFormat, "Site must be a whole address, such as https://example.com/page."},
		{own, `{"agree":true,"at":"x"}`, "at", form.RuleFormat, "At must be a date and a time, such as 2026-01-31T15:04:05Z."},
		{own, `{"agree":true,"at":"1990-12-31T23:59:60Z"}`, "at", form.RuleFormat, "At must be a date and a time, such as 2026-01-31T15:04:05Z."},
		{own, `{"agree":true,"region":"x"}`, "region", form.RuleEnum, `Region must be one of: "Europe" ("eu"), "America" ("us").`},
		{peer(`{"type":"string","enum":["a","b","c","d","e","f","g","h","i","j","k","l"]}`),
			`{"x":"m"}`, "x", form.RuleEnum, `X must be one of: "a", "b", "c", "d", "e", "f", ` +
				`"g", "h", "i", "j" and 2 more.`},
		{peer(`{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b","title":"` +
			strings.Repeat("é", 90) + `"}]}`), `{"x":"m"}`, "x", form.RuleEnum,
			`X must be one of: "A" ("a"), "` + strings.Repeat("é", 40) + `…" ("b").`},
		{peer(`{"type":"string","oneOf":[{"const":"a","title":"a"},{"const":"b","title":"B"}]}`),
			`{"x":"m"}`, "x", form.RuleEnum, `X must be one of: "a", "B" ("b").`},
		{peer(`{"type":"integer","enum":[1,2]}`), `{"x":3}`, "x", form.RuleEnum,
			`X must be one of: 1, 2.`},
		{peer(`{"type":"array","items":{"type":"string","enum":["a","b"]}}`), `{"x":["m"]}`, "x",
			form.RuleEnum, `X must hold nothing but: "a", "b".`},
		{own, `{"agree":true,"tags":["x"]}`, "tags", form.RuleEnum,
			`Tags must hold nothing but: "a", "b".`},
		{own, `{"agree":true,"tags":[]}`, "tags", form.RuleItems,
			"Tags must have at least 1 item."},
		{own, `{"agree":true,"tags":["a","b"]}`, "tags", form.RuleItems,
			"Tags must have at most 1 item."},
		{own, `{"agree":true,"tags":[1]}`, "tags", form.RuleType,
			"Tags must be a list of choices."},
		{own, `{"agree":true,"tags":"a"}`, "tags", form.RuleType,
			"Tags must be a list of choices."},
		{own, `{"agree":true,"wide":18446744073709551616}`, "wide", form.RuleRange, "Wide is too small or too large."},
		{own, `[]`, "", form.RuleShape, "The answer could not be read."},
		{peer(`{"type":"string","pattern":"^a"}`), `{"x":"b"}`, "x", form.RulePattern,
			"X does not have the required format."},
		{peer(`{"type":"number","exclusiveMinimum":1}`), `{"x":1}`, "x", form.RuleMinimum, "X must be more than 1."},
		{peer(`{"type":"number","exclusiveMaximum":1}`), `{"x":1}`, "x", form.RuleMaximum, "X must be less than 1."},
		{peer(`{"type":"array","uniqueItems":true,"items":{"type":"string","enum":["a"]}}`), `{"x":["a","a"]}`, "x", form.RuleItems, "X must not hold the same item twice."},
		{peer(`{"type":"string","format":"uuid"}`), `{"x":"1"}`, "x", form.RuleFormat,
			"X does not have the required format."},
		{peer(`{"type":"string","minLength":2,"title":"` + strings.Repeat("é", 100) + `\n"}`), `{"x":"1"}`, "x", form.RuleLength,
			"É" + strings.Repeat("é", 79) + "… must have at least 2 characters."},
	} {
		t.Run(tt.field+" "+tt.rule+" "+tt.content, func(t *testing.T) {
			_, err := tt.form.Accept([]byte(tt.content))
			if err == nil {
				t.Fatal("the answer is accepted")
			}
			wantEqual(t, "the result", tt.form.Explain(err),
				(form.Fault{Field: tt.field, Rule: tt.rule,
					Words: tt.word}))
		})
	}
}
