// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"text/template"

	"github.com/Masterminds/semver/v3"
	"github.com/Masterminds/sprig/v3"
)

// function is a function that templates can call. The size of its arguments is spent before it runs, and that of its
// result afterwards. If the work or the result can be much larger than the arguments, before spends that.
type function struct {
	call    reflect.Value
	typ     reflect.Type              // of call, with an error as second result
	measure func(*meter, any) error   // spends the size of an argument or result
	before  func(*meter, []any) error // spends the rest; nil for nothing
}

// refusedFunctions are functions of Sprig that templates cannot call, and why. A copy must be the same each time and on
// each machine.
func refusedFunctions() map[string]string {
	out := map[string]string{"call": "the data has no functions"}
	for why, names := range map[string][]string{
		"its result depends on the clock or the time zone": {
			"ago", "date", "date_in_zone", "date_modify", "dateInZone", "dateModify", "htmlDate", "htmlDateInZone",
			"must_date_modify", "mustDateModify", "mustToDate", "now", "toDate", "unixEpoch",
		},
		"its result differs each time": {
			"bcrypt", "buildCustomCert", "encryptAES", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert",
			"genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "htpasswd", "randAlpha", "randAlphaNum",
			"randAscii", "randBytes", "randInt", "randNumeric", "shuffle", "uuidv4",
		},
		"it costs too much":                          {"derivePassword"},
		"it reads from the agent's machine":          {"env", "expandenv"},
		"it asks the network of the agent's machine": {"getHostByName"},
	} {
		for _, name := range names {
			out[name] = why
		}
	}
	return out
}

// builtinFunctions are functions of text/template that are called as they are. rewriter makes them spend.
func builtinFunctions() []string {
	return []string{"and", "or", "not", "len", "index", "eq", "ne", "lt", "le", "gt", "ge"}
}

// mutatingFunctions are functions that change an argument.
func mutatingFunctions() []string {
	return []string{"set", "unset", "merge", "mustMerge", "mergeOverwrite", "mustMergeOverwrite"}
}

// plainFunctions are functions of Sprig that are called as they are, by the method of meter that measures their arguments
// and results. None does I/O, or has a result of a type that meter.walk does not know.
func plainFunctions() map[string][]string {
	return map[string][]string{
		"top": {
			"all", "any", "coalesce", "default", "dict", "dig", "empty", "fail", "first", "get", "hasKey", "hello", "kindIs",
			"kindOf", "last", "list", "mustFirst", "mustLast", "ternary", "tuple", "typeIs", "typeIsLike", "typeOf", "unset",
		},
		"items": {
			"append", "chunk", "compact", "concat", "initial", "mustAppend", "mustChunk", "mustCompact", "mustInitial",
			"mustPrepend", "mustPush", "mustRest", "mustReverse", "mustSlice", "omit", "pick", "pluck", "prepend", "push",
			"rest", "reverse", "slice",
		},
		"tree": {
			"abbrev", "abbrevboth", "add", "add1", "add1f", "addf", "adler32sum", "atoi", "b32dec", "b32enc", "b64dec",
			"b64enc", "base", "biggest", "camelcase", "cat", "ceil", "clean", "contains", "decryptAES", "deepCopy",
			"deepEqual", "dir", "div", "divf", "duration", "durationRound", "ext", "float64", "floor", "fromJson", "has",
			"hasPrefix", "hasSuffix", "indent", "initials", "int", "int64", "isAbs", "join", "kebabcase", "lower", "max",
			"maxf", "min", "minf", "mod", "mul", "mulf", "mustDeepCopy", "mustFromJson", "mustHas", "mustRegexFind",
			"mustRegexFindAll", "mustRegexMatch", "mustRegexReplaceAll", "mustRegexReplaceAllLiteral", "mustRegexSplit",
			"mustToJson", "mustToPrettyJson", "mustToRawJson", "mustUniq", "mustWithout", "nindent", "nospace", "osBase",
			"osClean", "osDir", "osExt", "osIsAbs", "plural", "quote", "regexFind", "regexFindAll", "regexMatch",
			"regexQuoteMeta", "regexReplaceAll", "regexReplaceAllLiteral", "regexSplit", "repeat", "replace", "round",
			"semverCompare", "seq", "sha1sum", "sha256sum", "sha512sum", "snakecase", "sortAlpha", "split", "splitList",
			"splitn", "squote", "sub", "subf", "substr", "swapcase", "title", "toDecimal", "toJson", "toPrettyJson",
			"toRawJson", "toString", "toStrings", "trim", "trimAll", "trimPrefix", "trimSuffix", "trimall", "trunc",
			"uniq", "until", "untilStep", "untitle", "upper", "urlJoin", "urlParse", "without", "wrap", "wrapWith",
		},
	}
}

// functions returns all functions that templates can call, except builtinFunctions.
func functions() map[string]function {
	out := map[string]function{}
	measures := map[string]func(*meter, any) error{"top": (*meter).top, "items": (*meter).items, "tree": (*meter).tree}
	limits := costs()
	add := func(name string, call any, measure func(*meter, any) error) {
		out[name] = newFunction(call, measure, limits[name])
	}
	all := sprig.GenericFuncMap()
	for measure, names := range plainFunctions() {
		for _, name := range names {
			add(name, all[name], measures[measure])
		}
	}
	for name, call := range map[string]any{
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
		"merge": merging(all["mustMerge"]), "mustMerge": merging(all["mustMerge"]), "semver": parseVersion,
		"mergeOverwrite": merging(all["mustMergeOverwrite"]), "mustMergeOverwrite": merging(all["mustMergeOverwrite"]),
	} {
		add(name, call, (*meter).tree)
	}
	add("set", setField, (*meter).top)
	add("keys", sortedKeys, (*meter).items)
	add("values", sortedValues, (*meter).items)
	return out
}

func newFunction(call any, measure func(*meter, any) error, before func(*meter, []any) error) function {
	f := function{call: reflect.ValueOf(call), measure: measure, before: before}
	t := f.call.Type()
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	f.typ = reflect.FuncOf(in, []reflect.Type{t.Out(0), reflect.TypeFor[error]()}, t.IsVariadic())
	return f
}

// bind returns the function for one execution of a template; it spends from that execution's meter.
func (f function) bind(m *meter) any {
	return reflect.MakeFunc(f.typ, func(in []reflect.Value) []reflect.Value {
		result, err := f.run(m, in)
		failure := reflect.Zero(reflect.TypeFor[error]())
		if err != nil {
			result, failure = reflect.Zero(f.typ.Out(0)), reflect.ValueOf(&err).Elem()
		}
		return []reflect.Value{result, failure}
	}).Interface()
}

func (f function) run(m *meter, in []reflect.Value) (reflect.Value, error) {
	args := make([]any, 0, len(in))
	take := func(v reflect.Value) {
		args = append(args, v.Interface())
	}
	for i, v := range in {
		if v = asMap(v); f.typ.IsVariadic() && i == len(in)-1 {
			for j := range v.Len() {
				item := v.Index(j)
				item.Set(asMap(item))
				take(item)
			}
			continue
		}
		in[i] = v
		take(v)
	}
	if err := m.spend(costCall); err != nil {
		return reflect.Value{}, err
	}
	for _, arg := range args {
		if err := f.measure(m, arg); err != nil {
			return reflect.Value{}, err
		}
	}
	if f.before != nil {
		if err := f.before(m, args); err != nil {
			return reflect.Value{}, err
		}
	}
	call := f.call.Call
	if f.typ.IsVariadic() {
		call = f.call.CallSlice
	}
	out := call(in)
	if len(out) > 1 && !out[1].IsNil() {
		err, _ := reflect.TypeAssert[error](out[1])
		return reflect.Value{}, err
	}
	return out[0], f.measure(m, out[0].Interface())
}

// asMap converts .Object to a map, for functions that look at the type of an argument.
func asMap(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		if o, ok := reflect.TypeAssert[document](v); ok {
			return reflect.ValueOf(map[string]any(o))
		}
	}
	return v
}

// sortedKeys and sortedValues are keys and values of Sprig, sorted by key: the order of a Go map differs each time.
func sortedKeys(dicts ...map[string]any) []string {
	out := []string{}
	for _, d := range dicts {
		out = append(out, slices.Sorted(maps.Keys(d))...)
	}
	return out
}

func sortedValues(d map[string]any) []any {
	out := []any{}
	for _, k := range slices.Sorted(maps.Keys(d)) {
		out = append(out, d[k])
	}
	return out
}

// setField is set of Sprig with a copy of the value, so that no value can contain itself.
func setField(d map[string]any, key string, value any) map[string]any {
	d[key] = deepCopy(value)
	return d
}

// merging is a merge function of Sprig with copies of the values, for the same reason.
func merging(original any) any {
	merge, _ := original.(func(map[string]any, ...map[string]any) (any, error))
	return func(into map[string]any, from ...map[string]any) (any, error) {
		for i, m := range from {
			from[i], _ = deepCopy(m).(map[string]any)
		}
		return merge(into, from...)
	}
}

// deepCopy copies the maps and lists of a value.
func deepCopy(v any) any {
	switch v := v.(type) {
	case document:
		return deepCopy(map[string]any(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, c := range v {
			out[k] = deepCopy(c)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, c := range v {
			out[i] = deepCopy(c)
		}
		return out
	case []string:
		return slices.Clone(v) // sortAlpha sorts in place
	}
	return v
}

// parseVersion is semver of Sprig with a plain map as its result: the cost of methods is not spent.
func parseVersion(text string) (map[string]any, error) {
	v, err := semver.NewVersion(text)
	if err != nil {
		return nil, errors.New("it is not a version")
	}
	return map[string]any{
		"Major": int64(v.Major()), "Minor": int64(v.Minor()), "Patch": int64(v.Patch()), //nolint:gosec // as printed
		"Prerelease": v.Prerelease(), "Metadata": v.Metadata(), "Original": cmp.Or(v.Original(), text),
	}, nil
}
