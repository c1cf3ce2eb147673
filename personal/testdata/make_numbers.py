"""Makes numbers.json with python-stdnum: random numbers of each form, and whether that library accepts them.

pip install python-stdnum; python make_numbers.py > numbers.json
"""
import importlib, json, random

random.seed(7)
FORMS = {  # our country: (stdnum module, form: 9 = digit, A = letter, date = yymmdd, dmy = ddmmyy, other characters stand for themselves)
    'IT': ('it.codicefiscale', 'AAAAAA{yy}{L}{dd}A999A'), 'FR': ('fr.nir', '{1-2}{yy}{mm}9999999999'), 'CN': ('cn.ric', '110105{yyyy}{mm}{dd}999{X}'),
    'MX': ('mx.curp', 'BADD{yy}{mm}{dd}HOCLRS09'), 'CH': ('ch.ssn', '756.9999.9999.99'), 'ES': ('es.dni', '99999999A'), 'FI': ('fi.hetu', '{dd}{mm}{yy}-999{H}'),
    'KR': ('kr.rrn', '{yy}{mm}{dd}-{1-4}999999'), 'SE': ('se.personnummer', '{yy}{mm}{dd}-9999'), 'BE': ('be.nn', '{yy}.{mm}.{dd}-999.99'), 'BR': ('br.cpf', '999.999.999-99'),
    'NO': ('no.fodselsnummer', '{dd}{mm}{yy}99999'), 'PL': ('pl.pesel', '{yy}{mm}{dd}99999'), 'ZA': ('za.idnr', '{yy}{mm}{dd}9999{0-1}89'),
    'DE': ('de.idnr', '99 999 999 999'), 'IN': ('in_.aadhaar', '{2-9}999 9999 9999'), 'NL': ('nl.bsn', '{1-9}99999999'), 'CA': ('ca.sin', '{1-7}99 999 999'), 'TR': ('tr.tckimlik', '{1-9}9999999999'),
    'card': ('luhn', '4999 9999 9999 9999'), 'iban': ('iban', 'NL99ABNA9999999999'),
}


def make(form):
    yy, mm, dd = random.randint(30, 99), random.randint(1, 12), random.randint(1, 28)
    form = form.replace('{yyyy}', '19%02d' % yy).replace('{yy}', '%02d' % yy).replace('{mm}', '%02d' % mm).replace('{dd}', '%02d' % dd)
    form = form.replace('{L}', random.choice('ABCDEHLMPRST')).replace('{X}', random.choice('0123456789X')).replace('{H}', random.choice('0123456789ABCDEFHJKLMNPRSTUVWXY'))
    while '{' in form:
        a, b = form.index('{'), form.index('}')
        low, high = form[a + 1:b].split('-')
        form = form[:a] + str(random.randint(int(low), int(high))) + form[b + 1:]
    fixed = form[:6] if 'ABNA' in form or 'BADD' in form or '756' in form else ''
    return ''.join(random.choice('0123456789') if c == '9' and not (i < len(fixed)) else random.choice('ABCDEFGHJKLMNPRSTVWXYZ') if c == 'A' and i >= len(fixed) and 'ABNA' not in form and 'BADD' not in form else c for i, c in enumerate(form))


out = {}
for country, (module, form) in FORMS.items():
    m = importlib.import_module('stdnum.' + module)
    good, bad = [], []
    for _ in range(20000):
        if len(good) == 8 and len(bad) == 8:
            break
        if 'ABNA' in form:
            s = 'NL%02dABNA%010d' % (random.randint(2, 98), random.randint(0, 10**10 - 1))
        elif 'BADD' in form:
            s = 'BADD%02d%02d%02dHOCLRS%02d' % (random.randint(30, 99), random.randint(1, 12), random.randint(1, 28), random.randint(0, 99))
        elif form.startswith('756'):
            s = '756.%04d.%04d.%02d' % (random.randint(0, 9999), random.randint(0, 9999), random.randint(0, 99))
        elif country == 'CN':
            s = '110105%d%02d%02d%03d%s' % (random.randint(1930, 1999), random.randint(1, 12), random.randint(1, 28), random.randint(0, 999), random.choice('0123456789X'))
        else:
            s = make(form)
        to = good if m.is_valid(s.replace(' ', '')) else bad
        if len(to) < 8:
            to.append(s)
    out[country] = {'valid': good, 'invalid': bad}
print(json.dumps(out, indent=0))
