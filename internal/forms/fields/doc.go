// Package fields reads the struct tags that describe a member of a form or of a tool's arguments.
// It is the only reader, so that a tag means the same in both places.
//
//	jsonschema:"text"         the description
//	title:"text"              the title
//	format:"email"            for a string; see [IsFormat]
//	minLength:"1" maxLength:"80"
//	minimum:"0" maximum:"10"  written as JSON writes numbers, and kept exactly
//	minItems:"1" maxItems:"3"
//	enum:"a,b,c"              the choices, for a string or a list of strings
//	enumTitles:"A,B,C"        their titles
//	default:"a"               the value of an absent member; commas separate those of a list
//
// # What is refused
//
// An ignored tag would be a bound that is not enforced. So [Read] refuses:
//
//   - a tag that differs from one of ours by a letter or two, or by case ("minumum", "maxlength");
//   - a keyword of JSON Schema, or a usual short form of one, that is not among ours ("pattern",
//     "required", "min", "maximumLength");
//   - key=value pairs in the jsonschema tag, which is a description only;
//   - a tag that does not fit the type of its field, or makes no sense: a minimum above the
//     maximum, an empty choice, an unchecked format, a bound that the type cannot hold.
//
// # What is ignored
//
// All other tags belong to other libraries: json, yaml, validate, db, env and so on. Some keywords
// of JSON Schema are ignored, too: "type", "id" and "properties" are tags of other libraries, and
// the Go type says the same; "items", "if" and "not" have a schema as their value, which a tag
// cannot hold; "example" is documentation. "required", "min" and "description" are refused although
// other libraries have them, because an author of arguments more often means a bound.
package fields
