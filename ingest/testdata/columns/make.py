"""Makes the PDFs beside it: pages of prose in columns, drawn row by row and column by column, and tables.

pip install reportlab; python make.py
"""
import pathlib
from reportlab.lib.utils import simpleSplit
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen import canvas

HERE = pathlib.Path(__file__).parent
TEXT = [
    'The harbour master keeps a record of every vessel that enters the port, with the hour of its arrival, the name of its captain and the cargo that it '
    'carries. Ships from abroad must wait at the outer pier until an officer has come aboard and looked through their papers. Most of them wait no longer '
    'than a morning, but in the autumn, when the storms drive many of them in at once, some lie there for days.',
    'Fishing boats are free of these rules. They go out before dawn and come back with the tide, and nobody asks them where they have been. An agreement '
    'between the guild and the town, which is older than the harbour wall, gives them the inner basin for themselves and lets them sell their catch on '
    'the quay without paying for a stall.',
    'Whoever wishes to repair a hull has to ask for one of the three dry docks. The docks are given out by lot at the end of each month, so that neither '
    'the rich nor the quick have an advantage over others. A dock that stands empty for more than a week goes to the next in line, and its former holder '
    'loses the deposit.',
]
GERMAN = [
    'Der Hafenmeister führt Buch über jedes Schiff, das in den Hafen einläuft, mit der Stunde der Ankunft, dem Namen des Kapitäns und der Ladung, die es '
    'trägt. Schiffe aus dem Ausland müssen am äußeren Kai warten, bis ein Beamter an Bord gekommen ist und die Papiere gesehen hat.',
    'Für Fischerboote gelten diese Regeln nicht. Sie fahren vor der Dämmerung hinaus und kommen mit der Flut zurück, und niemand fragt sie, wo sie gewesen '
    'sind. Eine Abmachung zwischen der Zunft und der Stadt gibt ihnen das innere Becken.',
    'Wer einen Rumpf ausbessern will, muss um eines der drei Trockendocks bitten. Die Docks werden am Ende jedes Monats verlost, damit weder die Reichen '
    'noch die Schnellen einen Vorteil haben.',
]


def wrap(text, width, size, hyphens=False):
    if not hyphens:
        return simpleSplit(text, 'Helvetica', size, width)
    lines, line = [], ''
    for word in text.split():
        trial = (line + ' ' + word).strip()
        if stringWidth(trial, 'Helvetica', size) <= width:
            line = trial
            continue
        for cut in range(len(word) - 3, 2, -1):
            trial = (line + ' ' + word[:cut] + '-').strip()
            if word.isalpha() and stringWidth(trial, 'Helvetica', size) <= width:
                lines.append(trial)
                line = word[cut:]
                break
        else:
            lines.append(line)
            line = word
    return lines + [line]


def page(name, draw):
    c = canvas.Canvas(str(HERE / name), pagesize=(612, 792), invariant=1, pageCompression=1)
    draw(c)
    c.save()


def put(c, x, y, line, size, width=0):
    t = c.beginText(x, y)
    t.setFont('Helvetica', size)
    if width and ' ' in line:
        t.setWordSpace((width - stringWidth(line, 'Helvetica', size)) / line.count(' '))
    t.textOut(line)
    c.drawText(t)


def columns(n, by_row, texts=TEXT, justified=False, hyphens=False, gutter=18, caption=False, heading=True):
    """n columns of prose; a line is (text, last of its paragraph)."""
    def draw(c):
        size, leading, left = 10, 12, 60
        width = (612 - 2 * left - (n - 1) * gutter) / n
        lines = []
        for text in texts * (2 if n > 2 else 1):
            wrapped = wrap(text, width, size, hyphens)
            lines += [(l, i == len(wrapped) - 1) for i, l in enumerate(wrapped)]
        if caption:
            lines.insert(4, ('Figure 1: The outer pier', True))
        y = 720
        if heading:
            c.setFont('Helvetica-Bold', 16)
            c.drawString(left, y, 'The rules of the harbour and of those who come to it by sea')
            y -= 30
        per = -(-len(lines) // n)
        cols = [lines[i * per:(i + 1) * per] for i in range(n)]
        cells = [(r, k) for r in range(per) for k in range(n)] if by_row else [(r, k) for k in range(n) for r in range(per)]
        for r, k in cells:
            if r < len(cols[k]):
                line, last = cols[k][r]
                put(c, left + k * (width + gutter), y - r * leading, line, size, width if justified and not last else 0)
        y -= per * leading + 20
        if heading:
            c.setFont('Helvetica-Bold', 12)
            c.drawString(left, y, 'What else there is to know about the port and its town')
            put(c, left, y - 20, 'The harbour office is open on all days but the first of the year.', size)
    return draw


def table(rows, xs, header=False):
    def draw(c):
        y = 720
        for i, row in enumerate(rows):
            c.setFont('Helvetica-Bold' if header and i == 0 else 'Helvetica', 10)
            for x, cell in zip(xs, row):
                c.drawString(x, y, cell)
            y -= 13
    return draw


def wrapped_rows(rows, xs, widths):
    """Cells of several lines, drawn line by line."""
    def draw(c):
        y = 720
        for row in rows:
            cells = [wrap(cell, w, 10) for cell, w in zip(row, widths)]
            for i in range(max(map(len, cells))):
                for x, cell in zip(xs, cells):
                    if i < len(cell):
                        put(c, x, y, cell[i], 10)
                y -= 12
            y -= 8
    return draw


page('two-rows.pdf', columns(2, True))
page('two-columns.pdf', columns(2, False))
page('two-rows-justified.pdf', columns(2, True, justified=True, gutter=12))
page('two-rows-hyphens.pdf', columns(2, True, justified=True, hyphens=True, caption=True))
page('two-rows-german.pdf', columns(2, True, GERMAN))
page('three-rows.pdf', columns(3, True))
page('three-rows-justified.pdf', columns(3, True, justified=True, hyphens=True, gutter=14, heading=False))
page('three-columns.pdf', columns(3, False, justified=True))
page('parallel.pdf', wrapped_rows(list(zip(TEXT, GERMAN)), (60, 315), (237, 237)))
page('prices.pdf', table([('Article', 'Price'), ('Rope of hemp, the metre', '1.20'), ('Lantern with glass', '14.50'), ('Tar, a small barrel', '9.75'),
                          ('Anchor, forged by hand', '120.00'), ('Sailcloth, the square metre', '7.40')], (72, 320), True))
page('facts.pdf', table([('Name of the vessel', 'Marie of the northern isles'), ('Home port', 'Bergen in Norway'), ('Captain', 'Ole Hansen'),
                         ('Built', 'in the year of the great storm'), ('Cargo', 'dried fish and furs'), ('Place', 'the third berth of the inner basin')], (72, 320)))
page('lists.pdf', table([('fresh bread from the oven', 'rope and tar for the ship'), ('salted fish', 'two lanterns'), ('a barrel of clean water', 'candles of good wax'),
                         ('dried peas', 'needles'), ('onions and cabbages', 'a compass in its brass case'), ('hard cheese', 'sailcloth')], (72, 320)))
page('glossary.pdf', wrapped_rows([('anchorage', TEXT[0][:178]), ('dry dock', TEXT[2][:166]), ('inner basin', TEXT[1][:142]), ('outer pier', TEXT[0][150:330])], (60, 190), (110, 330)))
page('timetable.pdf', table([('Ferry', 'Town', 'Island', 'Lighthouse')] + [(f'Line {i}', f'{5+i}:10', f'{5+i}:42', f'{6+i}:05') for i in range(1, 9)], (72, 200, 300, 400), True))
