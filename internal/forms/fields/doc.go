// Package fields reads struct tags of forms and tool arguments, so that they mean the same in both:
//
//	jsonschema:"text"         the description
//	title:"text"              the title
//	format:"email"            for a string; see [IsFormat]
//	minLength:"1" maxLength:"80"
//	minimum:"0" maximum:"10"  numbers in JSON notation, kept exactly
//	minItems:"1" maxItems:"3"
//	enum:"a,b,c"              the choices, for a string or a list of strings
//	enumTitles:"A,B,C"        their titles
//	default:"a"               the value of an absent member; commas separate those of a list
//
// # Refused tags
//
// An ignored tag would be a bound that is not enforced, so [Read] refuses:
//
//   - tags that differ from one of ours by a letter or two, or by case ("minumum", "maxlength");
//   - other keywords of JSON Schema and common short forms ("pattern", "required", "min",
//     "maximumLength");
//   - key=value pairs in the jsonschema tag, which is only a description;
//   - tags that do not fit the field's type or make no sense: a minimum above the maximum, an empty
//     choice, an unchecked format, a bound outside the type's range.
//
// # Ignored tags
//
// All other tags belong to other libraries: json, yaml, validate, db, env and so on. Some keywords
// of JSON Schema are ignored too: "type", "id" and "properties" are tags of other libraries, and
// the Go type has that information; "items", "if" and "not" have schemas as values, which a tag
// cannot hold; "example" is documentation. "required", "min" and "description" are refused although
// other libraries have them, because authors of arguments more often mean a bound.
package fields
