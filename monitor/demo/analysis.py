"""Which words of a text are worth embedding: a search engine's stop words for the help centre's four languages."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")
_STOP_WORDS = {
    "en": """
        a about after again all am an and any are as at be been before by can did do does early far few for
        from get give gives had happens has have how i if in is it its itself late later long many may me
        mean more must my myself need no not now of off on or our out should so some somebody soon still
        take takes that the their them then there they this those through to under up us was we were what
        when where which while who why will with work would you your
    """,
    "de": """
        aber alle als am an auch auf aus bei beim bekomme bekommt bis brauche da damit dann darf das dauern
        dauert dazu dem den der des die dies diese dieser du durch ein eine einem einen einer eines er es
        euch früh für gibt habe haben hat hoch ich ihr ihre ihrem ihren im in ist ja kann kein keine können
        lange man mein meine meinem meinen meiner mich mir mit muss nach nicht noch nun ob oder ohne
        passiert sehe sein selbst sich sie sind so soll sollte tun um und uns unter viel viele vom von vor
        wann warum was welche welchen wenn wer werden wie wir wird wo wurde wurden zu zum zur
    """,
    "fr": """
        ai au aux avant avec avez c ce cela ces cette combien comment d dans de depuis des dois doit du elle
        en est et eu faire faut il ils j je l la le les leur lors m ma mais me mes moi mon n ne nos notre
        nous on ou où par pas pendant peut peux pour pourquoi prend prendre puis qu quand que quel quelle
        quelles quels qui s sa sans se sera ses si son sont sous suis sur t temps tu un une va vers vos
        votre vous y être
    """,
    "pt": """
        a ao aos aquele as até com como da das de dela dele depois do dos e ela ele em então era essa esse
        esta este está eu faz fazer foi há isso já leva lo mais mas me meu meus minha minhas na nas nem no
        nos não o onde ou para pela pelas pelo pelos por porque posso pra precisa preciso quais qual quando
        quanta quanto que quem se sem ser seu sua são só tem tempo tenho um uma vai você vocês vou à às
    """,
}
_ALL_STOP_WORDS = frozenset(word for words in _STOP_WORDS.values() for word in words.split())


def significant(text: str) -> str:
    """The text's words without stop words, or the text itself where nothing else is left.

    >>> significant("How long does it take to charge the battery?")
    'charge battery'
    """
    return " ".join(word for word in _WORD.findall(text) if word.casefold() not in _ALL_STOP_WORDS) or text
