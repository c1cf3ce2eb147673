"""Renders templates with Jinja itself, set up as Hugging Face transformers does, and records the output.

    python3 -m venv venv && venv/bin/pip install jinja2==3.1.6
    venv/bin/python make_cases.py [FILE.gguf ...]     # writes cases.json, and ../../testdata/real.json for model files

The templates are our own. Those of model files are not copied: real.json keeps their SHA-256 and the output.
"""
import hashlib, json, mmap, os, struct, sys
from datetime import datetime
import jinja2, jinja2.ext, jinja2.nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime(2024, 7, 26).strftime(format)
    return env


ENV = environment()


def render(source, variables):
    try:
        return dict(output=ENV.from_string(source).render(**variables))
    except Exception as e:
        return dict(error=type(e).__name__ + ": " + str(e))


# ---- small snippets: every construct once ----

V = dict(
    name="World", empty="", text="  Hello, wörld!\n\tIt's \"fine\" <b>&  ", lines="one\ntwo\n\nthree\r\nfour", n=7, f=2.5, big=1e20, small=1e-7, yes=True, no=False, nothing=None,
    list=[3, 1, 2], words=["b", "A", "c", "a"], nested=[[1, 2], [3, [4]]], d={"b": 1, "a": "x", "C": None},
    people=[{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []}, {"name": "Cid", "age": 25}],
    messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
    emoji="a😀é漢\u0301z", quote="it's", both="it's \"x\"", ctl="a\x01\x7f\u200b\u2028b",
)

SNIPPETS = r"""
{{ name }}|{{ missing }}|{{ nothing }}|{{ yes }}|{{ n }}|{{ f }}|{{ big }}|{{ small }}|{{ 1.0 }}|{{ 100000000000000000.0 }}|{{ 0.1+0.2 }}
{{ list }}|{{ nested }}|{{ d }}|{{ (1,) }}|{{ () }}|{{ (1,'a') }}|{{ [none, true, 1.5, 'x'] }}|{{ quote }}{{ [quote, both, ctl, lines] }}
{{ 1 + 2 * 3 - 4 / 2 }}|{{ 7 // 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}|{{ -2 ** 2 }}|{{ 7.5 // 2 }}|{{ 7.5 % 2 }}
{{ 'a' + 'b' }}|{{ 'a' ~ 1 ~ none ~ true }}|{{ 'ab' * 3 }}|{{ [1] + [2] }}|{{ [0] * 3 }}|{{ 'x' 'y' }}|{{ "q\"'\\n\n\t\x41\u00e9" }}
{{ 1 < 2 < 3 }}|{{ 1 < 2 > 3 }}|{{ 1 == 1.0 }}|{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ 1 != 2 }}|{{ true == 1 }}|{{ 'a' == 1 }}|{{ none == false }}|{{ missing == missing }}
{{ 'a' in 'abc' }}|{{ 'x' not in 'abc' }}|{{ 1 in list }}|{{ 'a' in d }}|{{ 'z' in d }}|{{ 5 in [] }}|{{ [1,2] in nested }}
{{ yes and 'x' }}|{{ no or 'y' }}|{{ not yes }}|{{ '' or none or 0 or 'last' }}|{{ 1 and 0 and 2 }}|{{ not no and yes }}|{{ not (no and yes) }}
{{ 'a' if yes else 'b' }}|{{ 'a' if no }}|{{ 'a' if no else 'b' if no else 'c' }}|{{ (1 if yes else 2) + 1 }}
{{ list[0] }}|{{ list[-1] }}|{{ list[9] }}|{{ d.a }}|{{ d['a'] }}|{{ d.zz }}|{{ name[1] }}|{{ name[-1] }}|{{ name[99] }}|{{ emoji[1] }}|{{ nested[1][1][0] }}|{{ list.0 }}
{{ list[1:] }}|{{ list[:-1] }}|{{ list[::-1] }}|{{ name[1:3] }}|{{ name[::-1] }}|{{ emoji[1:4] }}|{{ name[::2] }}|{{ list[5:] }}|{{ name[-3:] }}|{{ name[3:1] }}|{{ list[:] }}|{{ list[-99:99:2] }}|{{ name[4:0:-2] }}
{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ x }};{% endfor %}
{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.cycle('a', 'b') }} {{ loop.changed(x > 1) }};{% endfor %}
{% for x in [] %}x{% else %}none{% endfor %}|{% for x in missing %}x{% else %}undefined{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}|{% for k in d %}{{ k }}{% endfor %}|{% for c in emoji %}{{ c }}.{% endfor %}|{% for a, b in [[1, 2], (3, 4)] %}{{ a }}{{ b }}{% endfor %}
{% for x in list if x > 1 %}{{ loop.index }}{{ x }}{{ loop.length }}{% endfor %}|{% for x in list if x > 9 %}{% else %}no{% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}|{{ range(3) | list }}{{ range(1, 10, 3) | list }}{{ range(3, 0, -1) | list }}{{ range(0) | list }}
{% for x in list %}{% for y in list %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
{% set x = 1 %}{{ x }}{% for i in list %}{% set x = i %}{{ x }}{% endfor %}{{ x }}|{% if yes %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(a=1, b='x') %}{% for i in list %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|{% set ns.d = [1] %}{{ ns.d }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}|{% set (c, e) = [3, 4] %}{{ c }}{{ e }}|{% set t = 1, 2 %}{{ t }}
{% set x %}block {{ name }}{% endset %}[{{ x }}]|{% set y | upper %}abc{{ name }}{% endset %}[{{ y }}]|{% set z | trim | replace('a', 'b') %}  aXa  {% endset %}[{{ z }}]
{% macro m(a, b='B', c=a) %}({{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}){% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=5, a=4) }}{{ m() }}
{% macro m(a) %}({{ a }}{{ varargs }}){% endmacro %}{{ m(1, 2, 3) }}{% macro k(a) %}({{ a }}{{ kwargs }}){% endmacro %}{{ k(1, x=2) }}{{ m(*[7, 8]) }}{{ k(**{'a': 5, 'z': 6}) }}
{% macro outer(x) %}{{ inner(x) }}!{% endmacro %}{% macro inner(x) %}<{{ x }}>{% endmacro %}{{ outer('a') }}
{% macro wrap(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call wrap('T') %}body {{ name }}{% endcall %}|{% macro each(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(v) each(list) %}<{{ v }}>{% endcall %}
{% filter upper %}a{{ name }}{% endfilter %}|{% filter trim | replace('a', 'b') %} aa {% endfilter %}|{% with a=1, b=2 %}{{ a + b }}{% endwith %}{{ a }}
{% raw %}{{ x }}{% y %}{# z #}{% endraw %}|{# comment #}{#- c -#}  x  {%- raw -%}  y  {%- endraw -%}  z
a {%- if yes %} b {%- endif %} c|a {% if yes -%} b {% endif -%} c|{{- ' x ' -}} y {{- 'z' }}|a {%+ if yes %} b{% endif +%} c
{% if n == 7 %}seven{% elif n == 8 %}eight{% else %}other{% endif %}|{% if no %}1{% elif no %}2{% elif yes %}3{% endif %}|{% if missing %}x{% endif %}{% if not missing %}y{% endif %}
{{ text | trim }}|{{ text | upper }}|{{ text | lower }}|{{ text | title }}|{{ text | capitalize }}|{{ 'foo-bar (baz) it\'s' | title }}|{{ 'xxaxx' | trim('x') }}|{{ 'straße' | upper }}
{{ text.strip() }}|{{ text.lstrip() }}|{{ text.rstrip() }}|{{ 'xxayx'.strip('xy') }}|{{ text.upper() }}|{{ text.title() }}|{{ text.capitalize() }}|{{ "they're bill's".title() }}
{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a b  c d'.split(none, 2) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ ' a b  c '.rsplit(none, 1) }}|{{ ''.split(',') }}|{{ ''.split() }}|{{ lines.splitlines() }}|{{ '<t>x</t>y'.split('</t>')[-1] }}|{{ 'a b c'.rsplit(none, 9) }}
{{ name.startswith('Wo') }}|{{ name.endswith('x') }}|{{ name.startswith(('A', 'W')) }}|{{ name.find('r') }}|{{ name.find('q') }}|{{ emoji.find('z') }}|{{ 'abab'.rfind('b') }}|{{ 'abab'.count('ab') }}
{{ 'aXbXc'.replace('X', '-') }}|{{ 'aXbXc'.replace('X', '-', 1) }}|{{ 'abc'.replace('', '-') }}|{{ 'abc' | replace('b', 'BB') }}|{{ 'aaa' | replace('a', 'b', 2) }}|{{ ''.replace('', 'x') }}|{{ 'ab'.replace('', '-', 2) }}
{{ '12'.isdigit() }}{{ 'a1'.isdigit() }}{{ ''.isdigit() }}{{ 'ab'.isalpha() }}{{ ' \n'.isspace() }}{{ 'AB'.isupper() }}{{ 'ab'.islower() }}{{ 'a1'.isalnum() }}
{{ 'prefix-x'.removeprefix('prefix-') }}|{{ 'x.txt'.removesuffix('.txt') }}|{{ 'a=b=c'.partition('=') }}|{{ 'a=b=c'.rpartition('=') }}|{{ 'abc'.partition('x') }}|{{ ', '.join(['a', 'b']) }}|{{ '{} {}'.format(1, 'x') }}|{{ '{0}{1}{0} {k} {{}}'.format('a', 'b', k=3) }}
{{ d.items() | list }}|{{ d.keys() | list }}|{{ d.values() | list }}|{{ d.get('a') }}|{{ d.get('q') }}|{{ d.get('q', 'def') }}|{{ d | items | list }}|{{ missing | items | list }}
{{ d | dictsort }}|{{ d | dictsort(true) }}|{{ {'x': 2, 'y': 1} | dictsort(by='value') }}|{{ {'x': 2, 'y': 1} | dictsort(reverse=true) }}
{{ list | length }}{{ name | count }}{{ emoji | length }}{{ missing | length }}{{ d | length }}|{{ list | first }}{{ list | last }}{{ [] | first }}{{ name | first }}{{ name | last }}
{{ list | join }}|{{ list | join(', ') }}|{{ people | join('/', attribute='name') }}|{{ [1, 'a', none] | join('-') }}|{{ name | join('.') }}
{{ list | sort }}|{{ words | sort }}|{{ words | sort(case_sensitive=true) }}|{{ list | sort(reverse=true) }}|{{ people | sort(attribute='age') | map(attribute='name') | list }}
{{ words | unique | list }}|{{ [1, 1, 2] | unique | list }}|{{ people | unique(attribute='age') | map(attribute='name') | list }}|{{ list | reverse | list }}|{{ name | reverse }}
{{ people | map(attribute='name') | list }}|{{ words | map('upper') | list }}|{{ people[:2] | map(attribute='tags.0') | list }}|{{ people | map(attribute='x', default='-') | list }}|{{ ['a b'] | map('replace', ' ', '_') | list }}
{{ list | select('gt', 1) | list }}|{{ list | reject('odd') | list }}|{{ [0, 1, '', 'a'] | select | list }}|{{ people | selectattr('age', 'equalto', 25) | map(attribute='name') | list }}|{{ people | selectattr('tags') | list | length }}|{{ people | rejectattr('tags', 'defined') | map(attribute='name') | list }}|{{ messages | selectattr('role', '==', 'user') | list }}|{{ messages | rejectattr('role', 'in', ['system', 'user']) | map(attribute='content') | first }}
{{ list | sum }}|{{ people | sum(attribute='age') }}|{{ list | min }}{{ list | max }}|{{ words | min }}|{{ words | max }}|{{ people | max(attribute='age') }}|{{ [] | sum }}
{{ missing | default('d') }}|{{ '' | default('d') }}|{{ '' | default('d', true) }}|{{ none | default('d') }}|{{ missing | d }}|{{ none | d('x', boolean=true) }}|{{ d.zz | default('q') }}
{{ '12' | int }}|{{ 'x' | int }}|{{ 'x' | int(5) }}|{{ 3.9 | int }}|{{ '3.9' | int }}|{{ 'ff' | int(base=16) }}|{{ '1.5' | float }}|{{ 'x' | float }}|{{ 3 | float }}|{{ true | int }}|{{ -3 | abs }}|{{ -2.5 | abs }}
{{ 2.567 | round }}|{{ 2.567 | round(2) }}|{{ 2.5 | round }}|{{ 2.1 | round(0, 'ceil') }}|{{ 2.9 | round(method='floor') }}|{{ 1234.5678 | round(1) }}
{{ 12 | string }}|{{ [1] | string }}|{{ '<b>' | safe }}|{{ '<b>&"\'' | escape }}|{{ '<' | e }}|{{ none | string }}|{{ missing | string }}|{{ name | list }}
{{ d | tojson }}|{{ nested | tojson }}|{{ text | tojson }}|{{ emoji | tojson }}|{{ ctl | tojson }}|{{ f | tojson }}{{ 1e20 | tojson }}|{{ none | tojson }}{{ yes | tojson }}|{{ [] | tojson }}{{ {} | tojson }}|{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}
{{ people | tojson(indent=2) }}|{{ d | tojson(sort_keys=true) }}|{{ d | tojson(separators=(',', ':')) }}|{{ emoji | tojson(ensure_ascii=true) }}|{{ {'a': [], 'b': {}} | tojson(indent=4) }}
{{ lines | indent }}|{{ lines | indent(2) }}|{{ lines | indent(2, true) }}|{{ lines | indent(width=1, blank=true) }}|{{ 'a\nb\n' | indent(2) }}|{{ 'a\nb' | indent('> ') }}|{{ '' | indent }}
{{ '%s is %d and %.2f' % ('x', 3, 2.345) }}|{{ '%s' % 'a' }}|{{ '%5s|%-5s|%05d|%x|%%' | format('a', 'b', 42, 255) }}|{{ '%r' % 'a' }}
{{ x is defined }}{{ name is defined }}{{ name is undefined }}{{ nothing is none }}{{ nothing is not none }}{{ d.q is defined }}{{ d['a'] is defined }}{{ missing is none }}
{{ name is string }}{{ n is string }}{{ n is number }}{{ f is number }}{{ yes is number }}{{ n is integer }}{{ f is float }}{{ yes is boolean }}{{ yes is true }}{{ no is false }}{{ n is true }}{{ 1 is true }}
{{ d is mapping }}{{ list is mapping }}{{ list is iterable }}{{ name is iterable }}{{ n is iterable }}{{ list is sequence }}{{ d is sequence }}{{ name is sequence }}{{ missing is iterable }}{{ none is iterable }}
{{ 4 is even }}{{ 4 is odd }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 1 is eq 1 }}{{ 1 is equalto(2) }}{{ 1 is ne 2 }}{{ 3 is gt 2 }}{{ 3 is lt(2) }}{{ 2 is ge 2 }}{{ 1 is in [1] }}{{ 'a' is in('abc') }}{{ range is callable }}{{ 'ab' is lower }}{{ 'AB' is upper }}
{{ name is not defined or name == 'World' }}|{{ 'yes' if name is string and n is number else 'no' }}|{{ not missing is defined }}|{{ (d.a is string) and not (d.b is string) }}|{{ name is string | string }}
{{ namespace(x=1).x }}|{{ dict(a=1, b=2) }}|{{ {'a': {'b': [1, {'c': 'deep'}]}}.a.b[1].c }}|{{ {}.x is defined }}|{{ [[]][0] | length }}|{{ ({'a': 1}).a }}|{{ {'a': 1,} }}{{ [1,] }}
{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%Y-%m-%d %H:%M:%S %B %A %j %y %%') }}
{{ (1, 2) + (3,) }}|{{ 'abc'[1] ~ 'x' }}|{{ -n }}|{{ +n }}|{{ - -n }}|{{ -n | abs }}|{{ 1 - -1 }}|{{ 'a' 'b' | upper }}|{{ 'a' ~ 'b' | upper }}|{{ 1 + 2 | string | length }}
{% if 'a' in name or 'W' in name and yes %}x{% endif %}{% if (name == 'World') == true %}y{% endif %}{% if messages[0]['role'] == 'system' and messages | length > 2 %}z{% endif %}
{% set loop_messages = messages[1:] %}{% set system = messages[0].content %}{% for m in loop_messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}bad{% endif %}{{ m.role }}:{{ system if loop.first else '' }}{{ m['content'] | trim }};{% endfor %}
{% for m in messages | reverse %}{{ m.role }},{% endfor %}|{% for i in range(messages | length - 1, -1, -1) %}{{ messages[i].role }},{% endfor %}|{{ messages[::-1][0].role }}|{{ messages[-1].content }}|{{ (messages | last).role }}
{% generation %}gen {{ name }}{% endgeneration %}|{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'user' and not ns.found %}{% set ns.found = true %}{{ loop.index0 }}{% endif %}{% endfor %}
{{ raise_exception('no ' ~ name) }}
{{ missing.attr }}
{{ missing + 'x' }}
{{ missing() }}
{{ n() }}
{{ 'a' + 1 }}
{{ 1 / 0 }}
{{ [1, 2] | first | upper + 1 }}
{{ n | length }}
{{ {}['a'].b }}
{% for a, b in [[1]] %}{% endfor %}
{{ none.x.y }}
{% set name.x = 1 %}
{{ 1 < 'a' }}
{{ 'x' | nofilter }}
{{ 'x' is notest }}
{% unknown %}
{% if yes %}
{% endif %}
{{ 'unclosed }}
{{ (1, }}
{% for x %}{% endfor %}
{{ 1 2 }}
{{ }}
{{ a..b }}
{% include 'x' %}
""".strip("\n").split("\n")

MULTILINE = [
    "{% if yes %}\nline\n{% endif %}\nend\n",
    "  {% if yes %}\n    line\n  {% endif %}\n  end\n\n",
    "{% for x in list %}\n  {{ x }}\n{% endfor %}\n",
    "{%- for x in list -%}\n  {{ x }}\n{%- endfor -%}\n  tail  ",
    "a\n  {# comment #}\nb\n{#- c #}\n c",
    "a\n  {{ name }}  \n  b",
    "x {% if yes %}\ny\n{% endif %} z",
    "{% set x = 1 %}\n\n{% set y = 2 %}\n{{ x }}{{ y }}\n\n\n",
    "a\r\nb\r\n{% if yes %}\r\nc\r\n{% endif %}\r\n",
    "{% macro f(x) %}\n  <{{ x }}>\n{% endmacro %}\n{{ f(1) }}\n{{- f(2) -}}\n end",
    "\n\n{%- if yes %}\n\n x \n\n{%- endif %}\n",
    "   {%+ if yes %}\nx\n   {%+ endif %}\ny",
    "{% if yes +%}\nx{% endif %}\n\ny",
    "\t{% raw %}\n {{ x }}\n\t{% endraw %}\nz",
    "{{ name\n  | upper\n  ~ '!' }}\n",
    "{{ {'a': {'b': {}}} }}{{ {'x':1}['x']}}",
    "{% set x = {\n 'a': 1,\n 'b': [1,\n 2]\n} %}{{ x }}",
    "{{ 'multi\nline' }}",
    "{ % } {{ '{{' }} {{ '%}' }} {}",
    "text only", "", "\n", "\n\n", "{{ '' }}\n",
    "a{# {{ x }} {% if %} #}b{#\n\n#}\nc",
    "é漢{{ '😀' }}ü{%- if yes %} ñ{% endif %}",
]

# ---- chat templates in the manner of the model families ----

CHAT = {
    "chatml": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are helpful.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "llama3": "{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- if strftime_now is defined %}\n        {%- set date_string = strftime_now(\"%d %b %Y\") %}\n    {%- else %}\n"
    "        {%- set date_string = \"26 Jul 2024\" %}\n    {%- endif %}\n{%- endif %}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content'] | trim %}\n"
    "    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n"
    "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n{{- system_message }}\n{{- \"<|eot_id|>\" }}\n{%- for message in messages %}\n"
    "    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}\n{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n",
    "gemma-refuses-system": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
    "gemma3": "{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n    {%- if messages[0]['content'] is string -%}\n        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}\n    {%- else -%}\n"
    "        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}\n    {%- endif -%}\n    {%- set loop_messages = messages[1:] -%}\n{%- else -%}\n    {%- set first_user_prefix = \"\" -%}\n"
    "    {%- set loop_messages = messages -%}\n{%- endif -%}\n{%- for message in loop_messages -%}\n    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}\n"
    "        {{ raise_exception(\"Conversation roles must alternate\") }}\n    {%- endif -%}\n    {%- if (message['role'] == 'assistant') -%}\n        {%- set role = \"model\" -%}\n    {%- else -%}\n"
    "        {%- set role = message['role'] -%}\n    {%- endif -%}\n    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else \"\") }}\n    {%- if message['content'] is string -%}\n"
    "        {{ message['content'] | trim }}\n    {%- elif message['content'] is iterable -%}\n        {%- for item in message['content'] -%}\n            {{ item['text'] | trim }}\n        {%- endfor -%}\n"
    "    {%- else -%}\n        {{ raise_exception(\"Invalid content type\") }}\n    {%- endif -%}\n    {{ '<end_of_turn>\n' }}\n{%- endfor -%}\n{%- if add_generation_prompt -%}\n    {{'<start_of_turn>model\n'}}\n{%- endif -%}\n",
    "mistral": "{%- if messages[0][\"role\"] == \"system\" %}\n    {%- set system_message = messages[0][\"content\"] %}\n    {%- set loop_messages = messages[1:] %}\n{%- else %}\n    {%- set loop_messages = messages %}\n{%- endif %}\n"
    "{%- set user_messages = loop_messages | selectattr(\"role\", \"equalto\", \"user\") | list %}\n{%- set ns = namespace() %}\n{%- set ns.index = 0 %}\n{%- for message in loop_messages %}\n"
    "    {%- if not (message.role == \"tool\" or message.tool_calls is defined) %}\n        {%- if (message[\"role\"] == \"user\") != (ns.index % 2 == 0) %}\n            {{- raise_exception(\"roles must alternate\") }}\n"
    "        {%- endif %}\n        {%- set ns.index = ns.index + 1 %}\n    {%- endif %}\n{%- endfor %}\n{{- bos_token }}\n{%- for message in loop_messages %}\n    {%- if message[\"role\"] == \"user\" %}\n"
    "        {%- if loop.last and system_message is defined %}\n            {{- \"[INST] \" + system_message + \"\\n\\n\" + message[\"content\"] + \"[/INST]\" }}\n        {%- else %}\n"
    "            {{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}\n        {%- endif %}\n    {%- elif message[\"role\"] == \"assistant\" %}\n        {{- \" \" + message[\"content\"]|trim + eos_token}}\n    {%- else %}\n"
    "        {{- raise_exception(\"Only user and assistant roles are supported\") }}\n    {%- endif %}\n{%- endfor %}\n",
    "phi3": "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
    "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
    "granite": "{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content'] %}\n    {%- set loop_messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = \"Today's Date: \" + strftime_now('%B %d, %Y') + \".\" %}\n"
    "    {%- set loop_messages = messages %}\n{%- endif %}\n{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\n' }}\n{%- for message in loop_messages %}\n"
    "    {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\n' }}\n    {%- if loop.last and add_generation_prompt %}\n        {{- '<|start_of_role|>assistant<|end_of_role|>' }}\n    {%- endif %}\n{%- endfor %}",
    "qwen3": "{%- if messages[0].role == 'system' %}\n    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n{%- endif %}\n{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n"
    "{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if ns.multi_step_tool and message.role == \"user\" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}\n"
    "        {%- set ns.multi_step_tool = false %}\n        {%- set ns.last_query_index = index %}\n    {%- endif %}\n{%- endfor %}\n{%- for message in messages %}\n    {%- if message.content is string %}\n        {%- set content = message.content %}\n    {%- else %}\n"
    "        {%- set content = '' %}\n    {%- endif %}\n    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) %}\n        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}\n    {%- elif message.role == \"assistant\" %}\n"
    "        {%- set reasoning_content = '' %}\n        {%- if message.reasoning_content is string %}\n            {%- set reasoning_content = message.reasoning_content %}\n        {%- else %}\n            {%- if '</think>' in content %}\n"
    "                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}\n                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n            {%- endif %}\n        {%- endif %}\n"
    "        {%- if loop.index0 > ns.last_query_index %}\n            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}\n        {%- else %}\n"
    "            {{- '<|im_start|>' + message.role + '\\n' + content }}\n        {%- endif %}\n        {{- '<|im_end|>\\n' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- endif %}\n{%- endif %}",
    "macros": "{%- macro turn(role, content) -%}\n<|{{ role }}|>{{ content | trim }}<|end|>\n{%- endmacro -%}\n{{ bos_token }}{% for m in messages %}{{ turn(m.role, m.content) }}\n{% endfor %}{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
}

CONVERSATIONS = [
    [{"role": "user", "content": "Hi there"}],
    [{"role": "system", "content": "Be brief. "}, {"role": "user", "content": " Where is the register?\n"}],
    [{"role": "system", "content": "S"}, {"role": "user", "content": "A"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nB"}, {"role": "user", "content": "C <|im_end|> <end_of_turn> [/INST]"}],
    [{"role": "user", "content": "A"}, {"role": "assistant", "content": " B "}],
    [{"role": "user", "content": "A"}, {"role": "user", "content": "B"}],
    [{"role": "system", "content": "only system"}],
    [{"role": "user", "content": "漢字 😀 'quoted' \"x\" {{ not code }} {% raw %}"}],
]


def chat_cases(name, source):
    out = []
    for messages in CONVERSATIONS:
        for prompt in (True, False):
            variables = dict(messages=messages, add_generation_prompt=prompt, bos_token="<bos>", eos_token="<eos>", tools=None, documents=None, enable_thinking=False)
            out.append(dict(messages=messages, add_generation_prompt=prompt, **render(source, variables)))
    return out


def gguf_template(path):
    with open(path, "rb") as f:
        m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    at = 8
    _, pairs = struct.unpack_from("<QQ", m, at)
    at += 16
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def string():
        nonlocal at
        n, = struct.unpack_from("<Q", m, at)
        at += 8 + n
        return m[at - n:at].decode("utf-8", "replace")

    for _ in range(pairs):
        key = string()
        kind, = struct.unpack_from("<I", m, at)
        at += 4
        if kind == 8:
            value = string()
            if key == "tokenizer.chat_template":
                return value
        elif kind == 9:
            inner, n = struct.unpack_from("<IQ", m, at)
            at += 12
            if inner == 8:
                for _ in range(n):
                    string()
            else:
                at += n * sizes[inner]
        else:
            at += sizes[kind]
    return None


def dump(name, value):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=True, indent=1)
        f.write("\n")


if __name__ == "__main__":
    snippets = [dict(template=s, **render(s, V)) for s in SNIPPETS + MULTILINE]
    chats = [dict(name=n, template=s, cases=chat_cases(n, s)) for n, s in CHAT.items()]
    dump("cases.json", dict(variables=V, snippets=snippets, chats=chats))
    real = []
    for path in sys.argv[1:]:
        source = gguf_template(path)
        real.append(dict(file=os.path.basename(path), sha256=hashlib.sha256(source.encode()).hexdigest(), cases=chat_cases(path, source)))
    if real:
        dump("../../testdata/real.json", real)
