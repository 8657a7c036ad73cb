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
// A tag that is ignored is a bound that is not enforced. So [Read] refuses tags that it does not
// support but that an author may have meant for it:
//
//   - a tag that differs from one of ours by a letter or two, or by case ("minumum", "maxlength");
//   - a keyword of JSON Schema, or a usual short form of one, that is not among ours ("pattern",
//     "required", "min", "maximumLength");
//   - key=value pairs in the jsonschema tag, which is a description only;
//   - a tag that does not go with the type of its field, or that makes no sense: a minimum above
//     the maximum, an empty choice, a format that nothing checks, a bound that the type cannot
//     hold.
//
// # What is left alone
//
// Every other tag belongs to another library: json, yaml, validate, db, env, mapstructure and so
// on. A few keywords of JSON Schema are left alone, too. "type", "id" and "properties" are tags of
// kong, of several mappers and of magiconair/properties, and the Go type already says what they
// would say. Keywords whose value is a schema ("items", "if", "not") cannot be written in a tag.
// "example" is documentation in swag, huma and others. Some libraries have tags with the refused
// names: "required" and "min" in kong, envconfig and the AWS SDK, "description" in go-flags. They
// are refused all the same, because on an argument the same word is far more often meant as a
// bound.
package fields
